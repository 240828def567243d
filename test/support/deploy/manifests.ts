import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse, parseAllDocuments } from 'yaml'

/** Folder of the checkout. */
export const checkoutRoot = join(import.meta.dirname, '../../..')

/** Reads a file of the checkout. */
export const readCheckout = (...path: string[]): string => readFileSync(join(checkoutRoot, ...path), 'utf8')

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
  readonly lifecycle?: { readonly preStop: { readonly sleep: { readonly seconds: number } } }
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
    readonly template: {
      readonly metadata: { readonly labels: Record<string, string> },
      readonly spec: {
        readonly terminationGracePeriodSeconds: number,
        readonly containers: Container[],
        readonly volumes: Array<
          {
            readonly name: string,
            readonly secret?: { readonly secretName: string },
            readonly configMap?: { readonly name: string }
          }
        >,
        readonly securityContext: object
      }
    }
  }
}

/** Contents of a kustomization.yaml. */
export interface Kustomization {
  readonly resources?: string[]
  readonly images?: Array<{ readonly name: string, readonly newTag: string }>
  readonly configMapGenerator?: Array<{ readonly name: string, readonly files: string[] }>
}

/** Folders of the manifests, relative to the checkout. */
export const manifestFolders = ['deploy/kubernetes', 'deploy/kubernetes/monitoring']

/** Returns the kustomization of a folder. */
export const kustomizationOf = (folder: string): Kustomization =>
  parse(readCheckout(folder, 'kustomization.yaml')) as Kustomization

/** Returns the manifest files that a folder's kustomization names. */
export const manifestFilesOf = (folder: string): string[] =>
  kustomizationOf(folder).resources?.filter(name => name.endsWith('.yaml')) ?? []

/** Returns every YAML file of a folder except its kustomization. */
export const yamlIn = (folder: string): string[] =>
  readdirSync(join(checkoutRoot, folder)).filter(name => name.endsWith('.yaml') && name !== 'kustomization.yaml')

/** Returns all objects of a folder, each with its file. */
export function manifestsOf (folder: string): Array<{ readonly file: string, readonly manifest: Manifest }> {
  return manifestFilesOf(folder).flatMap(file =>
    parseAllDocuments(readCheckout(folder, file)).map(document => ({
      file: `${folder}/${file}`,
      manifest: document.toJS() as Manifest
    }))
  )
}

/** Returns the single object of a kind and name. */
export function findManifest (kind: string, name = 'varve'): Manifest {
  const [one] = manifestFolders.flatMap(manifestsOf).filter(({ manifest }) =>
    manifest.kind === kind && manifest.metadata.name === name
  )
  if (one === undefined) throw new Error(`there is no ${kind} ${name}`)
  return one.manifest
}

/** Returns the pod that runs varve, and varve's container. */
export function varvePod (): { readonly pod: Manifest['spec']['template']['spec'], readonly container: Container } {
  const pod = findManifest('Deployment').spec.template.spec
  const [container] = pod.containers
  if (container === undefined) throw new Error('there is no container')
  return { pod, container }
}
