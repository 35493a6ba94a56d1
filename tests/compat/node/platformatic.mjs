// The agent of @platformatic/kafka.
import { Admin, Consumer, Producer, FetchIsolationLevels, IncrementalAlterConfigOperationTypes, ConfigResourceTypes } from '@platformatic/kafka'
import { collector, data, offsetsOf, places, saslOf, serve, tellAssigned, tellRecords, text, tlsOf } from './agent.mjs'

const WAIT_S = 20
const basis = request => ({
  clientId: 'platformatic',
  bootstrapBrokers: request.bootstrap.split(','),
  tls: tlsOf(request),
  sasl: saslOf(request, name => name),
  retries: 5,
  retryDelay: 100,
  timeout: 10_000,
  metadataMaxAge: 500
})
let number = 0
let member = null
let producer = null
let transaction = null

async function admin (request, work, more = {}) {
  const one = new Admin({ ...basis(request), ...more })
  try {
    return await work(one)
  } finally {
    await one.close()
  }
}

const message = topic => one => ({
  topic,
  partition: one.p,
  ...(one.k === null ? {} : { key: data(one.k) }),
  ...(one.v === null ? {} : { value: data(one.v) }),
  headers: new Map(one.h.map(([name, value]) => [Buffer.from(name), data(value)])),
  timestamp: BigInt(one.t)
})
const record = found => ({
  topic: found.topic,
  p: found.partition,
  o: Number(found.offset),
  k: text(found.key),
  v: text(found.value),
  h: [...found.headers].map(([name, value]) => [name.toString(), text(value)]),
  t: Number(found.timestamp)
})

async function send (sender, request) {
  const answer = await sender.send({
    messages: request.records.map(message(request.topic)),
    acks: request.acks ?? -1,
    compression: request.compression ?? 'none'
  })
  const first = (answer.offsets ?? []).map(({ partition, offset }) => [partition, Number(offset)])
  return offsetsOf(request.records, first)
}

const consumerOf = (request, group) => new Consumer({
  ...basis(request),
  groupId: group,
  ...(request.instance_id ? { groupInstanceId: request.instance_id } : {}),
  sessionTimeout: request.session_ms ?? 6000,
  rebalanceTimeout: Math.max(6000, request.session_ms ?? 0),
  heartbeatInterval: 200,
  maxWaitTime: 100,
  maxBytesPerPartition: request.fetch_bytes ?? 1_048_576,
  isolationLevel: request.isolation === 'read_committed'
    ? FetchIsolationLevels.READ_COMMITTED
    : FetchIsolationLevels.READ_UNCOMMITTED
})

const resource = request => ({
  resourceType: ConfigResourceTypes[request.kind.toUpperCase()], resourceName: request.name
})
async function alter (request, how) {
  const change = { name: request.key, value: request.value }
  await admin(request, one => how === 'alterConfigs'
    ? one.alterConfigs({ resources: [{ ...resource(request), configs: [change] }] })
    : one.incrementalAlterConfigs({
      resources: [{
        ...resource(request),
        configs: [{ ...change, configOperation: IncrementalAlterConfigOperationTypes.SET }]
      }]
    }))
}

async function listed (request, timestamp) {
  const count = request.partitions ?? request.partition + 1
  return admin(request, async one => {
    const [found] = await one.listOffsets({
      topics: [{
        name: request.topic,
        partitions: places(count).map(partitionIndex => ({ partitionIndex, timestamp }))
      }]
    })
    return found.partitions.sort((a, b) => a.partitionIndex - b.partitionIndex).map(({ offset }) => Number(offset))
  })
}

const kept = new Map()
const ops = {
  create_topics: request => admin(request, async one => {
    for (const topic of request.topics) {
      await one.createTopics({
        topics: [topic.name],
        partitions: topic.partitions,
        replicas: topic.replicas ?? 1,
        configs: Object.entries(topic.configs ?? {}).map(([name, value]) => ({ name, value }))
      })
    }
  }),
  delete_topics: request => admin(request, one => one.deleteTopics({ topics: request.names })),
  list_topics: request => admin(request, async one => (await one.listTopics()).sort()),
  look: request => admin(request, async one => (await one.listTopics()).sort(), { retries: 1 })
    .catch(error => { throw new Error(wordsOf(error)) }),
  partitions: request => admin(request, async one => {
    const { topics } = await one.metadata({ topics: [request.topic] })
    return topics.get(request.topic).partitionsCount
  }),
  create_partitions: request => admin(request, one => one.createPartitions({
    topics: [{ name: request.topic, count: request.count, assignments: null }]
  })),
  describe_config: request => admin(request, async one => {
    const [found] = await one.describeConfigs({
      resources: [{ ...resource(request), configurationKeys: null }]
    })
    return Object.fromEntries(found.configs.map(({ name, value }) => [name, value]))
  }),
  alter_config: request => alter(request, 'incrementalAlterConfigs'),
  alter_config_in_full: request => alter(request, 'alterConfigs'),
  produce: async request => {
    const one = new Producer({ ...basis(request), idempotent: request.idempotent ?? false, autocreateTopics: true })
    try {
      return await send(one, request)
    } finally {
      await one.close()
    }
  },
  consume: async request => {
    const one = consumerOf(request, `reader-${process.pid}-${number++}`)
    const found = collector(request.count, 1000 * (request.wait_s ?? WAIT_S))
    const stream = await one.consume({ topics: [request.topic], mode: 'earliest', autocommit: false })
    stream.on('data', message => found.add(record(message)))
    const records = await found.done
    await one.close(true)
    return records
  },
  ends: async request => {
    const first = await listed(request, -2n)
    const last = await listed(request, -1n)
    return first.map((offset, index) => [offset, last[index]])
  },
  offset_for_time: async request => (await listed(request, BigInt(request.ms)))[request.partition],
  join: async request => {
    const one = consumerOf(request, request.group)
    member = one
    one.on('consumer:group:rebalance', () => tellAssigned([]))
    // A fetch under way still brings records of what had to be given up: told when it is over.
    one.on('consumer:group:join', ({ assignments }) => setTimeout(() => tellAssigned(
      (assignments ?? []).flatMap(({ topic, partitions }) => partitions.map(p => [topic, p]))), 300))
    // Its streams end where a broker is lost; who uses it begins again.
    const listen = async () => {
      const stream = await one.consume({
        topics: request.topics,
        mode: 'committed',
        fallbackMode: 'earliest',
        autocommit: request.auto_commit ? 100 : false
      })
      stream.on('error', error => {
        console.error('stream', error)
        again()
      })
      stream.on('data', message => {
        kept.set(`${message.topic}:${message.partition}:${message.offset}`, message)
        tellRecords([record(message)])
      })
    }
    const again = () => setTimeout(() => {
      if (member === one) listen().catch(again)
    }, 200)
    await listen()
  },
  leave: async () => {
    const one = member
    member = null
    kept.clear()
    await one?.close(true)
  },
  commit: request => member.commit({
    offsets: request.offsets.map(([topic, partition, offset]) =>
      ({ topic, partition, offset: BigInt(offset), leaderEpoch: -1 }))
  }),
  committed: async request => {
    const asked = new Map()
    for (const [topic, partition] of request.places) asked.set(topic, [...(asked.get(topic) ?? []), partition])
    const found = await member.listCommittedOffsets({
      topics: [...asked].map(([topic, partitions]) => ({ topic, partitions }))
    })
    return request.places.map(([topic, partition]) =>
      Number(found.get(topic)[asked.get(topic).indexOf(partition)]))
  },
  groups: request => admin(request, async one => [...(await one.listGroups()).keys()].sort()),
  describe_group: request => admin(request, async one => {
    const found = (await one.describeGroups({ groups: [request.group] })).get(request.group)
    const owned = [...found.members.values()].flatMap(({ assignments }) =>
      [...(assignments?.values() ?? [])].flatMap(({ topic, partitions }) => partitions.map(p => [topic, p])))
    const state = found.state.split('_').map(word => word[0] + word.slice(1).toLowerCase()).join('')
    return { state, members: found.members.size, owned: owned.sort() }
  }),
  group_offsets: request => admin(request, async one => {
    const [found] = await one.listConsumerGroupOffsets({ groups: [request.group] })
    return found.topics.flatMap(({ name, partitions }) =>
      partitions.map(({ partitionIndex, committedOffset }) => [name, partitionIndex, Number(committedOffset)])).sort()
  }),
  alter_group_offsets: request => admin(request, one => one.alterConsumerGroupOffsets({
    groupId: request.group,
    topics: request.offsets.map(([name, partition, offset]) =>
      ({ name, partitionOffsets: [{ partition, offset: BigInt(offset) }] }))
  })),
  delete_group_offsets: request => admin(request, one => one.deleteConsumerGroupOffsets({
    groupId: request.group, topics: [{ name: request.topic, partitionIndexes: [request.partition] }]
  })).then(() => null),
  delete_group: request => admin(request, one => one.deleteGroups({ groups: [request.group] })),
  delete_records: request => admin(request, async one => {
    const [{ partitions: [found] }] = await one.deleteRecords({
      topics: [{
        name: request.topic,
        partitions: [{ partition: request.partition, offset: BigInt(request.offset) }]
      }]
    })
    return Number(found.lowWatermark)
  }),
  log_dirs: request => admin(request, async one => {
    const found = await one.describeLogDirs({
      topics: [{ name: request.topic, partitions: places(request.partitions) }]
    })
    return found.flatMap(({ results }) => results).flatMap(({ topics }) => topics)
      .flatMap(({ partitions }) => partitions)
      .reduce((sum, { partitionSize }) => sum + Number(partitionSize), 0)
  }),
  tx_open: async request => {
    // What it waits for an answer is also how long its transactions may take. It asks for its
    // producer id with the first of them.
    const timeout = request.timeout_ms ?? 10_000
    producer = new Producer({ ...basis(request), timeout, idempotent: true, transactionalId: request.id })
  },
  tx_begin: async () => { transaction = await producer.beginTransaction() },
  tx_send: request => send(transaction, request),
  tx_offsets: async request => {
    await transaction.addConsumer(member)
    for (const [topic, partition, offset] of request.offsets) {
      await transaction.addOffset(kept.get(`${topic}:${partition}:${offset - 1}`))
    }
  },
  tx_commit: () => transaction.commit(),
  tx_abort: () => transaction.abort(),
  reset: async () => {
    await ops.leave()
    const one = producer
    producer = transaction = null
    await one?.close(true)
  }
}

// Each error, and what lies below it.
const wordsOf = error => [error, ...(error.errors ?? []), error.cause].filter(Boolean)
  .map(one => one === error ? one.message : wordsOf(one)).join('; ')

// Errors of the protocol lie below the client's own.
const codeOf = error => {
  if (typeof error?.apiCode === 'number') return error.apiCode
  for (const below of [...(error?.errors ?? []), error?.cause]) {
    const found = below ? codeOf(below) : null
    if (found !== null) return found
  }
  return null
}
serve(ops, codeOf)
