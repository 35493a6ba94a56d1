// The agent of kafkajs. Snappy, LZ4 and zstd are codecs that its users bring along.
import kafkajs from 'kafkajs'
import lz4 from 'lz4js'
import snappy from 'snappyjs'
import zstd from 'zstd-codec'
import { collector, data, offsetsOf, saslOf, serve, tellAssigned, tellRecords, text, tlsOf } from './agent.mjs'

const { Kafka, CompressionCodecs, CompressionTypes, ConfigResourceTypes, logLevel } = kafkajs
const WAIT_S = 20

const codec = (compress, decompress) => () => ({
  compress: async encoder => Buffer.from(compress(encoder.buffer)),
  decompress: async buffer => Buffer.from(decompress(buffer))
})
const XERIAL = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0])
const unpackSnappy = buffer => {
  if (!buffer.subarray(0, 8).equals(XERIAL)) return snappy.uncompress(buffer)
  const parts = []
  for (let at = 16; at < buffer.length;) {
    const size = buffer.readUInt32BE(at)
    parts.push(snappy.uncompress(buffer.subarray(at + 4, at + 4 + size)))
    at += 4 + size
  }
  return Buffer.concat(parts)
}
CompressionCodecs[CompressionTypes.Snappy] = codec(snappy.compress, unpackSnappy)
CompressionCodecs[CompressionTypes.LZ4] = codec(lz4.compress, lz4.decompress)
await new Promise(resolve => zstd.ZstdCodec.run(library => {
  const simple = new library.Simple()
  CompressionCodecs[CompressionTypes.ZSTD] = codec(
    buffer => simple.compress(buffer), buffer => simple.decompress(buffer))
  resolve()
}))
const COMPRESSION = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' }

const client = (request, retries = 8) => new Kafka({
  clientId: 'kafkajs',
  brokers: request.bootstrap.split(','),
  ssl: tlsOf(request),
  sasl: saslOf(request, name => name.toLowerCase()),
  // It logs in again within this time before its session ends; ten seconds is its default.
  reauthenticationThreshold: 200,
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 50, retries }
})
let number = 0
let member = null
let producer = null
let transaction = null

async function admin (request, work, retries) {
  const one = client(request, retries).admin()
  await one.connect()
  try {
    return await work(one)
  } finally {
    await one.disconnect()
  }
}

const message = one => ({
  partition: one.p,
  key: data(one.k),
  value: data(one.v),
  headers: Object.fromEntries(one.h.map(([name, value]) => [name, data(value)])),
  timestamp: String(one.t)
})
const record = (topic, partition, found) => ({
  topic,
  p: partition,
  o: Number(found.offset),
  k: text(found.key),
  v: text(found.value),
  h: Object.entries(found.headers ?? {}).map(([name, value]) => [name, text(value)]),
  t: Number(found.timestamp)
})

async function send (sender, request) {
  const answer = await sender.send({
    topic: request.topic,
    messages: request.records.map(message),
    acks: request.acks ?? -1,
    compression: CompressionTypes[COMPRESSION[request.compression ?? 'none']]
  })
  const first = (answer ?? []).map(one => [one.partition, Number(one.baseOffset)])
  return offsetsOf(request.records, first)
}

const consumerOf = (request, group) => client(request).consumer({
  groupId: group,
  sessionTimeout: request.session_ms ?? 6000,
  rebalanceTimeout: 6000,
  heartbeatInterval: 200,
  metadataMaxAge: 500,
  maxWaitTimeInMs: 100,
  maxBytesPerPartition: request.fetch_bytes ?? 1_048_576,
  readUncommitted: request.isolation !== 'read_committed'
})

const resource = request => ({ type: ConfigResourceTypes[request.kind.toUpperCase()], name: request.name })

const ops = {
  create_topics: request => admin(request, async one => {
    const made = await one.createTopics({
      topics: request.topics.map(topic => ({
        topic: topic.name,
        numPartitions: topic.partitions,
        replicationFactor: topic.replicas ?? 1,
        configEntries: Object.entries(topic.configs ?? {}).map(([name, value]) => ({ name, value }))
      }))
    })
    // Its way to say that a topic exists.
    if (!made) throw Object.assign(new Error('exists'), { code: 36 })
  }),
  delete_topics: request => admin(request, one => one.deleteTopics({ topics: request.names })),
  list_topics: request => admin(request, async one => (await one.listTopics()).sort()),
  look: request => admin(request, async one => (await one.listTopics()).sort(), 1),
  partitions: request => admin(request, async one => {
    const { topics } = await one.fetchTopicMetadata({ topics: [request.topic] })
    return topics[0].partitions.length
  }),
  create_partitions: request => admin(request, one => one.createPartitions({
    topicPartitions: [{ topic: request.topic, count: request.count }]
  })).then(() => null),
  describe_config: request => admin(request, async one => {
    const { resources } = await one.describeConfigs({ includeSynonyms: true, resources: [resource(request)] })
    return Object.fromEntries(resources[0].configEntries.map(({ configName, configValue }) => [configName, configValue]))
  }),
  alter_config: request => admin(request, one => one.alterConfigs({
    validateOnly: false,
    resources: [{ ...resource(request), configEntries: [{ name: request.key, value: request.value }] }]
  })).then(() => null),
  produce: async request => {
    const one = client(request).producer({ idempotent: request.idempotent ?? false, retry: { retries: 3 } })
    await one.connect()
    try {
      return await send(one, request)
    } finally {
      await one.disconnect()
    }
  },
  consume: async request => {
    const one = consumerOf(request, `reader-${process.pid}-${number++}`)
    const found = collector(request.count, 1000 * (request.wait_s ?? WAIT_S))
    await one.connect()
    await one.subscribe({ topics: [request.topic], fromBeginning: true })
    await one.run({
      autoCommit: false,
      eachMessage: async ({ topic, partition, message }) => found.add(record(topic, partition, message))
    })
    const records = await found.done
    await one.disconnect()
    return records
  },
  ends: request => admin(request, async one => {
    const found = await one.fetchTopicOffsets(request.topic)
    return found.sort((a, b) => a.partition - b.partition).map(({ low, high }) => [Number(low), Number(high)])
  }),
  offset_for_time: request => admin(request, async one => {
    const found = await one.fetchTopicOffsetsByTimestamp(request.topic, request.ms)
    return Number(found.find(({ partition }) => partition === request.partition).offset)
  }),
  join: async request => {
    const one = consumerOf(request, request.group)
    member = one
    one.on(one.events.GROUP_JOIN, ({ payload }) => tellAssigned(
      Object.entries(payload.memberAssignment).flatMap(([topic, owned]) => owned.map(p => [topic, p]))))
    one.on(one.events.REBALANCING, () => tellAssigned([]))
    await one.connect()
    await one.subscribe({ topics: request.topics, fromBeginning: true })
    await one.run({
      autoCommit: request.auto_commit ?? false,
      autoCommitInterval: 100,
      eachBatch: async ({ batch, resolveOffset }) => {
        tellRecords(batch.messages.map(found => record(batch.topic, batch.partition, found)))
        resolveOffset(batch.lastOffset())
      }
    })
  },
  leave: async () => {
    const one = member
    member = null
    await one?.disconnect()
  },
  commit: request => member.commitOffsets(
    request.offsets.map(([topic, partition, offset]) => ({ topic, partition, offset: String(offset) }))),
  groups: request => admin(request, async one => (await one.listGroups()).groups.map(({ groupId }) => groupId).sort()),
  describe_group: request => admin(request, async one => {
    const { groups: [found] } = await one.describeGroups([request.group])
    const owned = found.members.flatMap(({ memberAssignment }) => {
      const { assignment } = kafkajs.AssignerProtocol.MemberAssignment.decode(memberAssignment)
      return Object.entries(assignment).flatMap(([topic, list]) => list.map(p => [topic, p]))
    })
    return { state: found.state, members: found.members.length, owned: owned.sort() }
  }),
  group_offsets: request => admin(request, async one => {
    const found = await one.fetchOffsets({ groupId: request.group })
    return found.flatMap(({ topic, partitions }) =>
      partitions.map(({ partition, offset }) => [topic, partition, Number(offset)])).sort()
  }),
  alter_group_offsets: request => admin(request, async one => {
    for (const [topic, partition, offset] of request.offsets) {
      await one.setOffsets({
        groupId: request.group, topic, partitions: [{ partition, offset: String(offset) }]
      })
    }
  }),
  delete_group: request => admin(request, one => one.deleteGroups([request.group])).then(() => null),
  delete_records: request => admin(request, async one => {
    // It deletes only where it has looked before.
    await one.fetchTopicOffsets(request.topic)
    await one.deleteTopicRecords({
      topic: request.topic,
      partitions: [{ partition: request.partition, offset: String(request.offset) }]
    })
    return request.offset
  }),
  tx_open: async request => {
    producer = client(request).producer({
      transactionalId: request.id,
      transactionTimeout: request.timeout_ms ?? 60_000,
      idempotent: true,
      maxInFlightRequests: 1
    })
    await producer.connect()
    // It asks for its producer id with the first transaction.
    transaction = await producer.transaction()
    await transaction.abort()
    transaction = null
  },
  tx_begin: async () => { transaction = await producer.transaction() },
  tx_send: request => send(transaction, request),
  tx_offsets: request => transaction.sendOffsets({
    consumerGroupId: request.group,
    topics: request.offsets.map(([topic, partition, offset]) =>
      ({ topic, partitions: [{ partition, offset: String(offset) }] }))
  }),
  tx_commit: () => transaction.commit(),
  tx_abort: () => transaction.abort(),
  reset: async () => {
    await ops.leave()
    const one = producer
    producer = transaction = null
    await one?.disconnect()
  }
}

// Errors of the protocol lie below the client's own.
function codeOf (error) {
  if (!error) return null
  for (const code of [error.code, error.errorCode]) {
    if (typeof code === 'number') return code
  }
  const part = (error.groups ?? error.partitions ?? error.errors)?.[0]
  return codeOf(part?.error ?? part) ?? codeOf(error.originalError ?? error.cause)
}
serve(ops, codeOf)
