import { availableParallelism, cpus } from 'node:os'

const processors = availableParallelism()
// Bounds the memory of groups that all wait.
const mostPerProcessor = 3
// Leaves room for what a started group computes later.
const idleShare = 0.25
// A new group computes for about this long, so the next one starts only if the processors idle in spite of it.
const checkedEveryMs = 1000

/** Bounds what runs at once: one task per processor, and more while these idle, since many tests wait for timers. */
export class Slots {
  #least
  #most
  #running = 0
  #waiting = []
  #timer
  #before

  constructor (least = processors, most = mostPerProcessor * processors) {
    this.#least = least
    this.#most = most
  }

  /** True if nothing ever runs beside a task. */
  get isSingle () {
    return this.#most === 1
  }

  /** Runs a task as soon as there is room for it, in the order of the calls; returns its result. */
  async run (task) {
    if (this.#running < this.#least) this.#running++
    else await this.#wait()
    try {
      return await task()
    } finally {
      this.#running--
      this.#startNext(this.#least)
    }
  }

  async #wait () {
    await new Promise(resolve => {
      this.#waiting.push(resolve)
      if (this.#timer !== undefined) return
      this.#before = processorTimes()
      this.#timer = setInterval(() => this.#check(), checkedEveryMs)
    })
  }

  #check () {
    const [before, now] = [this.#before, this.#before = processorTimes()]
    if (now.idle - before.idle >= idleShare * (now.all - before.all)) this.#startNext(this.#most)
  }

  #startNext (limit) {
    const start = this.#running < limit ? this.#waiting.shift() : undefined
    if (start !== undefined) {
      this.#running++
      start()
    }
    if (this.#waiting.length === 0) this.#timer = clearInterval(this.#timer)
  }
}

/** Makes slots for files that must not disturb each other. */
export const oneByOne = () => new Slots(1, 1)

function processorTimes () {
  const all = cpus().map(({ times }) => times)
  const sum = of => all.reduce((total, times) => total + of(times), 0)
  return {
    idle: sum(({ idle }) => idle),
    all: sum(({ user, nice, sys, idle, irq }) => user + nice + sys + idle + irq)
  }
}
