"""The commands: Kafka's tools without their `kafka-` prefix, with Kafka's flags and output.

Each command has a module, which is imported when the command is called. The modules own flags,
texts and exit codes. The client library does the work; dump-log reads storage's files itself.
"""
