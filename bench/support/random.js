/** Generates numbers from 0 to below 1; equal seeds give equal numbers on every machine. */
export function drawsOf (seed) {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** Draws ranks by Zipf's law, which models the popularity of requested items. */
export function zipf (draw, count, exponent) {
  const upTo = []
  for (let rank = 0, sum = 0; rank < count; rank++) upTo.push(sum += 1 / (rank + 1) ** exponent)
  return () => {
    const wanted = draw() * upTo[count - 1]
    let [low, high] = [0, count - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if (upTo[middle] < wanted) low = middle + 1
      else high = middle
    }
    return low
  }
}
