import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { checkoutRoot, readCheckout } from './checkout.js'
import { render } from './kustomize.js'

export { checkoutRoot, readCheckout }

/** A port as a manifest names it. */
export interface Port {
  readonly name?: string
  readonly port?: number | string
  readonly containerPort?: number
  readonly targetPort?: string
}

/** A container, with the parts that tests use. */
export interface Container {
  readonly image: string
  readonly args: string[]
  readonly ports: Port[]
  readonly volumeMounts: Array<{ readonly name: string, readonly mountPath: string }>
  readonly securityContext: object
  readonly resources: { readonly limits: { readonly memory: string } }
  readonly env?: ReadonlyArray<{ readonly name: string, readonly value?: string, readonly valueFrom?: object }>
  readonly lifecycle?: { readonly preStop: { readonly exec: { readonly command: readonly string[] } } }
  readonly [probe: `${string}Probe`]: {
    readonly httpGet?: { readonly path: string, readonly port: string },
    readonly tcpSocket?: { readonly port: string }
  }
}

/** A Kubernetes object, with the parts that tests use. */
export interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string, readonly namespace?: string, readonly labels: Record<string, string> }
  readonly spec: {
    readonly replicas?: number,
    readonly selector: Record<string, string> & { readonly matchLabels: Record<string, string> },
    readonly podSelector: { readonly matchLabels: Record<string, string> },
    readonly ports: Port[],
    readonly ingress: Array<{ readonly ports: Port[], readonly from?: unknown[] }>,
    readonly endpoints: Array<{ readonly port: string, readonly path: string }>,
    readonly jobLabel: string,
    readonly groups: unknown,
    readonly serviceName?: string,
    readonly volumeClaimTemplates?: ReadonlyArray<
      {
        readonly metadata: { readonly name: string },
        readonly spec: { readonly resources: { readonly requests: { readonly storage: string } } }
      }
    >,
    readonly scaleTargetRef: { readonly kind: string, readonly name: string },
    readonly rules: ReadonlyArray<
      {
        readonly http: {
          readonly paths: ReadonlyArray<
            {
              readonly backend: {
                readonly service: { readonly name: string, readonly port: { readonly name: string } }
              }
            }
          >
        }
      }
    >,
    readonly template: {
      readonly metadata: { readonly labels: Record<string, string> },
      readonly spec: {
        readonly terminationGracePeriodSeconds: number,
        readonly containers: Container[],
        readonly volumes: Array<
          {
            readonly name: string,
            readonly secret?: { readonly secretName: string },
            readonly configMap?: { readonly name: string },
            readonly emptyDir?: { readonly sizeLimit: string }
          }
        >,
        readonly securityContext: object
      }
    }
  }
}

/** Folder of the manifests. */
export const manifestFolder = 'deploy/kubernetes'

const foldersOf = (folder: string): string[] =>
  readdirSync(join(checkoutRoot, manifestFolder, folder)).map(name => `${folder}/${name}`)

/** Folders that can be applied: the base alone, and with a component each. */
export const applicable = ['base', ...foldersOf('overlays')]

/** Every folder of manifests with a kustomization. */
export const kustomized = [...applicable, ...foldersOf('components')]

/** Returns the objects of a folder, as kustomize renders it. */
export function manifestsOf (folder: string): Manifest[] {
  return render(`${manifestFolder}/${folder}`) as unknown as Manifest[]
}

/** Returns the single object of a kind and name in a folder. */
export function findManifest (folder: string, kind: string, name = 'varve'): Manifest {
  const [one, ...more] = manifestsOf(folder).filter(one => one.kind === kind && one.metadata.name === name)
  if (one === undefined || more.length > 0) throw new Error(`expected one ${kind} ${name} in ${folder}`)
  return one
}

/** Returns the pod that runs varve, and varve's container. */
export function varvePod (
  folder = 'base',
  kind = 'Deployment'
): { readonly pod: Manifest['spec']['template']['spec'], readonly container: Container } {
  const pod = findManifest(folder, kind).spec.template.spec
  const [container] = pod.containers
  if (container === undefined) throw new Error('there is no container')
  return { pod, container }
}
