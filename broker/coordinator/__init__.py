"""What coordinators of groups and of transactions share: state kept in an internal topic's log."""
