"""The commands: Kafka's tools without their `kafka-` prefix, with Kafka's flags and output.

Each command has a module, which is imported when the command is called. The modules own flags,
texts and exit codes; the client library (for dump-log, storage's formats) does the work.
"""
