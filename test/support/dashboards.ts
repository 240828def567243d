import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Folder of the dashboards that Grafana loads. */
export const dashboardFolder = join(import.meta.dirname, '../../grafana/dashboards')

/** A query of a panel. */
export interface Target {
  readonly refId: string
  readonly expr: string
  readonly legendFormat: string
  readonly instant: boolean
  readonly range: boolean
}

/** A panel, or the title of a section. */
export interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly description?: string
  readonly gridPos: { readonly x: number, readonly y: number, readonly w: number, readonly h: number }
  readonly targets?: readonly Target[]
  readonly fieldConfig?: {
    readonly defaults: {
      readonly unit?: string,
      readonly thresholds?: { readonly steps: ReadonlyArray<{ readonly value: number | null }> }
    }
  }
}

/** A dashboard as it is committed. */
export interface Dashboard {
  readonly uid: string
  readonly title: string
  readonly tags: readonly string[]
  readonly schemaVersion: number
  readonly links: ReadonlyArray<{ readonly tags: readonly string[], readonly includeVars: boolean }>
  readonly annotations: {
    readonly list: ReadonlyArray<{ readonly name: string, readonly target: { readonly expr: string } }>
  }
  readonly templating: {
    readonly list: ReadonlyArray<{ readonly name: string, readonly query: unknown, readonly definition?: string }>
  }
  readonly panels: readonly Panel[]
}

/** A query with its place, as `helping/Hit rate/A`. */
export interface Query extends Target {
  readonly at: string
  readonly panel: Panel
}

/** Returns every dashboard by its file name. */
export function dashboards (): Map<string, Dashboard> {
  const files = readdirSync(dashboardFolder).filter(name => name.endsWith('.json'))
  return new Map(
    files.map(
      file => [
        file.slice(0, -'.json'.length),
        JSON.parse(readFileSync(join(dashboardFolder, file), 'utf8')) as Dashboard
      ]
    )
  )
}

/** Returns every query of every panel. */
export function queries (): Query[] {
  return [...dashboards()].flatMap(([name, { panels }]) =>
    panels.flatMap(panel =>
      (panel.targets ?? []).map(target => ({ ...target, panel, at: `${name}/${panel.title}/${target.refId}` }))
    )
  )
}

/** A selector of one metric, as `name{label="value"}`. */
export interface Selector {
  readonly metric: string
  readonly matches: ReadonlyArray<{ readonly label: string, readonly operator: string, readonly value: string }>
}

/** Returns all selectors of an expression. */
export function selectorsIn (expression: string): Selector[] {
  return [...expression.matchAll(/([a-z0-9_:]+)\{([^}]*)\}/g)].map(([, metric = '', inside = '']) => ({
    metric,
    matches: [...inside.matchAll(/([a-z_]+)(=~|!~|!=|=)"([^"]*)"/g)].map((
      [, label = '', operator = '', value = '']
    ) => ({ label, operator, value }))
  }))
}
