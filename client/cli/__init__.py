"""The commands: Kafka's tools without their `kafka-` prefix, with Kafka's flags and output.

Each module is one command, imported when it is called. Flags, texts and exit codes are owned
here; what they do is done by the client library (and by storage's formats, for dump-log).
"""
