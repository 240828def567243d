const testPoint = /^( *)(not )?ok\b(?: \d+)?(?: - (.*))?$/
const directive = /(?<!\\)# (?:SKIP|TODO)\b/i

/**
 * Counts assertions of a TAP stream. A subtest's closing line counts only if it failed without a failed assertion:
 * crash, plan or exit code.
 */
export class TapCount {
  passed = 0
  skipped = []
  failed = []
  #onFile
  // Counts per depth since the last line of a lower depth; that depth's next line closes them.
  #open = []
  // Points of the form `ok 1 - name {`, which precede their subtests.
  #before = []
  #yamlIndent
  #details

  constructor (onFile) {
    this.#onFile = onFile
  }

  line (text) {
    if (this.#yamlIndent !== undefined) return this.#yaml(text)
    const [, indent, not, title = ''] = testPoint.exec(text) ?? []
    if (indent !== undefined) {
      const point = { depth: indent.length / 4, ok: not === undefined, title: title.replace(/ \{$/, '') }
      if (title.endsWith(' {')) this.#before.push(point)
      else this.#take(point)
    } else if (/^ *---$/.test(text)) {
      this.#yamlIndent = text.slice(0, -3)
    } else if (/^ *\}$/.test(text) && this.#before.at(-1)?.depth === (text.length - 1) / 4) {
      this.#take(this.#before.pop())
    } else if (text.startsWith('Bail out!')) {
      this.failed.push({ path: [text], details: [] })
    }
  }

  #yaml (text) {
    if (text === `${this.#yamlIndent}...`) this.#yamlIndent = undefined
    else this.#details?.push(text.slice(this.#yamlIndent.length))
  }

  #take ({ depth, ok, title }) {
    const under = this.#open[depth + 1] ?? { passed: 0, failed: [] }
    const leaf = under.passed + under.failed.length === 0
    this.#open.length = Math.min(this.#open.length, depth + 1)
    const here = this.#open[depth] ??= { passed: 0, failed: [] }
    const name = title.replace(/ # (?:time=|SKIP|TODO).*$/i, '')
    this.#details = undefined

    const failed = [...under.failed]
    for (const failure of failed) failure.path.unshift(name)
    here.passed += under.passed
    if (directive.test(title)) {
      if (leaf) this.skipped.push(name)
    } else if (ok && leaf) {
      this.passed++
      here.passed++
    } else if (!ok && failed.length === 0) {
      const failure = { path: [name], details: this.#details = [] }
      this.failed.push(failure)
      failed.push(failure)
    }
    here.failed.push(...failed)
    if (depth === 0) this.#onFile({ name, ok, passed: under.passed, failed, time: /# time=(\S+)/.exec(title)?.[1] })
  }
}
