import { sendRequest } from './client.js'
import { type TestVarve } from './varve.js'

const modes = ['on', 'observe', 'off'] as const

/** One of the modes. */
export type FollowMode = typeof modes[number]

/** Mode of following for a random run: by its seed, or by FOLLOW. */
export function followModeOf (seed: number): FollowMode {
  return modes.find(mode => mode === process.env['FOLLOW']) ?? modes[seed % modes.length] ?? 'off'
}

/** Reads the series of following. */
export async function followSeriesOf ({ adminUrl }: Pick<TestVarve, 'adminUrl'>): Promise<Array<[string, number]>> {
  const { body } = await sendRequest(adminUrl, '/metrics')
  return body.split('\n').flatMap((line): Array<[string, number]> => {
    const [, name, value] = /^(varve_follow_\S+|varve_requests_total\S*hit_followed\S*) (\S+)$/.exec(line) ?? []
    return name === undefined || value === '0' ? [] : [[name, Number(value)]]
  })
}
