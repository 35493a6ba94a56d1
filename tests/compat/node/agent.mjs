// What agents in JavaScript share: one line of JSON in, one line out; events in between.
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

export const say = line => process.stdout.write(JSON.stringify(line) + '\n')
export const data = value => (value === null ? null : Buffer.from(value, 'base64'))
export const text = value => (value === null || value === undefined ? null : value.toString('base64'))
export const places = count => Array.from({ length: count }, (_, partition) => partition)
export const byPlace = (one, other) =>
  one[0] < other[0] ? -1 : one[0] > other[0] ? 1 : one[1] - other[1]
export const tellAssigned = owned => say({ event: 'assigned', places: owned.sort(byPlace) })
export const tellRecords = records => say({ event: 'records', records })

// How a client is let in; the words are those of agents/base.py.
export function tlsOf ({ security: { ca, own } }) {
  if (!ca) return undefined
  const mine = own ? readFileSync(own) : undefined
  return { ca: [readFileSync(ca)], cert: mine, key: mine }
}
export function saslOf ({ security: { mechanism, user, password } }, nameOf) {
  return mechanism ? { mechanism: nameOf(mechanism), username: user, password } : undefined
}

// Offsets of records in the order they were given, from the first offset of each partition.
export function offsetsOf (records, first) {
  const next = new Map(first)
  return records.map(({ p }) => {
    const offset = next.get(p)
    next.set(p, offset + 1)
    return [p, offset]
  })
}

// Collects what arrives until there are `count`, or `ms` are over.
export function collector (count, ms) {
  const found = []
  let settle
  const done = new Promise(resolve => { settle = resolve })
  const timer = setTimeout(() => settle(found), ms)
  return {
    done,
    add (record) {
      if (found.length < count) found.push(record)
      if (found.length >= count) {
        clearTimeout(timer)
        settle(found)
      }
    }
  }
}

export function serve (ops, codeOf) {
  let last = Promise.resolve()
  createInterface({ input: process.stdin }).on('line', line => {
    const request = JSON.parse(line)
    last = last.then(async () => {
      try {
        say({ ok: (await ops[request.op](request)) ?? null })
      } catch (error) {
        const words = { code: codeOf(error) ?? null, name: error.name, text: String(error.message) }
        say({ error: words })
        if (process.env.AGENT_DEBUG) console.error(error)
      }
    })
  }).on('close', () => process.exit(0))
  process.on('unhandledRejection', error => console.error('unhandled', error))
}
