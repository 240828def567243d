/** Words of the glossary's "not" column that mean nothing else, each with what to say instead. */
const words = [
  ['afresh|anew', 'again, revalidate'],
  ['whoever', 'the client that, the caller that'],
  ['nobody|somebody', 'no client, nothing; a client'],
  ['befalls?|befell|befallen', 'happen'],
  ['reckon(?:s|ed|ing)?', 'compute, count'],
  ['mend(?:s|ed|ing)?', 'fix, repair'],
  ['dear(?:er|est)?', 'expensive'],
  ['lets? go|letting go', 'drop, release'],
  ['of the moment', 'latest, moving'],
  ['in earnest', 'nothing'],
  ['crews?', 'worker pool'],
  ['shelf|shelves', 'Redis tier, tier'],
  ['(?<!head\\.)fleet(?!:)', 'upstream pool'],
  ['newcomers?', 'unverified upstream'],
  ['leisure', 'overloaded'],
  ['patience', 'backoff, deadline'],
  ['told|tells?', 'reported, notify, say'],
  ['take[sn]? back|taking back', 'cancel'],
  ['asked for rest|resting', 'backing off'],
  ['fence[sd]?', 'quarantined'],
  ['sick', 'unhealthy'],
  ['welcomes?', 'verified'],
  ['not kept', 'not stored'],
  ['what is more|to the letter|be it', 'nothing; exactly'],
  ['makes? room', 'evict'],
  ['few lines', 'rate-limited logging'],
  ['(?:undefined|false|rejects?|throws?) where', 'if'],
  ['lest|whence|thereby|thereof|hereby', 'simpler words']
]

const banned = new RegExp(`(?<![\\w-])(?:${words.map(([pattern]) => `(${pattern})`).join('|')})(?![\\w-])`, 'i')

/** Returns what is wrong with a text that has a private word; undefined for any other. */
export function privateWordIn (text) {
  const [word, ...groups] = banned.exec(text) ?? []
  if (word === undefined) return undefined
  const [, instead] = words[groups.findIndex(group => group !== undefined)]
  return `"${word}" is private vocabulary: say ${instead} (CONTRIBUTING.md, Words)`
}

/** Returns true for a comment, with its stars, that starts with a question word. */
export function beginsWithQuestion (comment) {
  return /^[\s*]*(?:what|who|whether|how)\b/i.test(comment)
}

/** Reports private vocabulary in comments and strings: readers know the words of nginx, Envoy and Prometheus. */
export const tradeWords = {
  meta: { type: 'suggestion', schema: [] },
  create (context) {
    const check = (node, text) => {
      const message = privateWordIn(text)
      if (message !== undefined) context.report({ node, message })
    }
    const isImport = ({ parent }) => /^(?:Import|Export)/.test(parent.type)
    return {
      Program () {
        for (const comment of context.sourceCode.getAllComments()) {
          check(comment, comment.value)
          if (beginsWithQuestion(comment.value)) {
            const message = 'a comment starts with a verb or a noun (CONTRIBUTING.md, Sentences)'
            context.report({ node: comment, message })
          }
        }
      },
      Literal (node) {
        if (typeof node.value === 'string' && !isImport(node)) check(node, node.value)
      },
      TemplateElement (node) {
        check(node, node.value.raw)
      }
    }
  }
}
