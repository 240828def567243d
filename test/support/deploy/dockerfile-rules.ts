import { type BuildStage, copyOf, type Instruction } from './dockerfile.js'

/** A rule of hadolint, under its code there; returns the instructions that break it. */
export interface DockerfileRule {
  readonly code: string
  readonly says: string
  /** A Dockerfile that breaks this rule. */
  readonly wrong: string
  readonly broken: (stages: readonly BuildStage[]) => readonly string[]
}

// Rules look at each command of a RUN, split at && and ; as a shell does.
const commandsIn = ({ text }: Instruction): string[] => text.split(/&&|\|\||;/).map(command => command.trim())
const stepsOf = (stages: readonly BuildStage[], ...names: string[]): Instruction[] =>
  stages.flatMap(({ steps }) => steps).filter(({ name }) => names.includes(name))
const textsOf = (steps: readonly Instruction[], isBroken: (text: string) => boolean): string[] =>
  steps.map(({ text }) => text).filter(isBroken)
const commandsOf = (stages: readonly BuildStage[], isBroken: (command: string) => boolean): string[] =>
  stepsOf(stages, 'RUN').flatMap(commandsIn).filter(isBroken)
const isDigestMissing = (image: string): boolean => !/:[^:@]+@sha256:[0-9a-f]{64}$/.test(image)
const base = `node:1.2.3@sha256:${'0'.repeat(64)}`
const labelKey = /^(?:[a-z0-9]+(?:[.-][a-z0-9]+)*)$/

/** hadolint's rules that a Dockerfile of this kind can break. */
export const dockerfileRules: readonly DockerfileRule[] = [
  {
    code: 'DL3000',
    says: 'WORKDIR is absolute',
    wrong: `FROM ${base}\nWORKDIR build`,
    broken: stages => textsOf(stepsOf(stages, 'WORKDIR'), text => !text.startsWith('/'))
  },
  {
    code: 'DL3002',
    says: 'the last user is not root',
    wrong: `FROM ${base}\nUSER 0:0`,
    broken: stages => {
      const user = stages.at(-1)?.steps.filter(({ name }) => name === 'USER').at(-1)?.text ?? 'root'
      return /^(?:root|0)(?::|$)/.test(user) ? [`USER ${user}`] : []
    }
  },
  {
    code: 'DL3003',
    says: 'WORKDIR instead of cd',
    wrong: `FROM ${base}\nRUN cd /build && npm ci`,
    broken: stages => commandsOf(stages, command => command.startsWith('cd '))
  },
  {
    code: 'DL3004',
    says: 'no sudo',
    wrong: `FROM ${base}\nRUN sudo npm ci`,
    broken: stages => commandsOf(stages, command => command.startsWith('sudo '))
  },
  {
    code: 'DL3006, DL3007',
    says: 'each base has a version, never latest, and here a digest too',
    wrong: 'FROM node:latest',
    broken: stages =>
      stages.map(({ image }) => image).filter(image => isDigestMissing(image) || /:latest\b/.test(image))
  },
  {
    code: 'DL3008, DL3009, DL3014, DL3015',
    says: 'apt-get install pins versions, needs no answer, brings nothing recommended, and leaves no lists',
    wrong: `FROM ${base}\nRUN apt-get update && apt-get install curl`,
    broken: stages =>
      textsOf(
        stepsOf(stages, 'RUN'),
        text =>
          /\bapt-get install\b/.test(text) &&
          !(/ -y\b/.test(text) && / --no-install-recommends\b/.test(text) && /\S=\S/.test(text) &&
            /rm -rf \/var\/lib\/apt\/lists/.test(text))
      )
  },
  {
    code: 'DL3011',
    says: 'ports are below 65536',
    wrong: `FROM ${base}\nEXPOSE 80800`,
    broken: stages => textsOf(stepsOf(stages, 'EXPOSE'), text => text.split(' ').some(port => !(Number(port) < 65_536)))
  },
  {
    code: 'DL3016',
    says: 'npm installs from the lock file',
    wrong: `FROM ${base}\nRUN npm install varve`,
    broken: stages => commandsOf(stages, command => /^npm (?:install|i) /.test(command))
  },
  {
    code: 'DL3020',
    says: 'COPY instead of ADD',
    wrong: `FROM ${base}\nADD src src`,
    broken: stages => textsOf(stepsOf(stages, 'ADD'), () => true)
  },
  {
    code: 'DL3021, DL3045',
    says: 'several sources go to a folder, and a relative target has a WORKDIR',
    wrong: `FROM ${base}\nCOPY a b c`,
    broken: stages =>
      stages.flatMap(({ steps }) =>
        textsOf(steps.filter(({ name }) => name === 'COPY'), text => {
          const { sources, to } = copyOf(text)
          const hasFolder = to.startsWith('/') || steps.some(({ name }) => name === 'WORKDIR')
          return (sources.length > 1 && !to.endsWith('/')) || !hasFolder
        })
      )
  },
  {
    code: 'DL3022, DL3024',
    says: 'stages have names of their own, and COPY --from names one',
    wrong: `FROM ${base} AS a\nFROM ${base} AS a\nCOPY --from=b /a /a`,
    broken: stages => {
      const names = stages.map(({ name }) => name).filter(name => name !== undefined)
      const repeated = names.filter((name, at) => names.indexOf(name) !== at)
      return [
        ...repeated,
        ...textsOf(stepsOf(stages, 'COPY'), text => {
          const { from } = copyOf(text)
          return from !== undefined && !names.includes(from)
        })
      ]
    }
  },
  {
    code: 'DL3025',
    says: 'commands run without a shell',
    wrong: `FROM ${base}\nCMD node /app`,
    broken: stages =>
      textsOf(stepsOf(stages, 'CMD', 'ENTRYPOINT', 'HEALTHCHECK'), text => !/^(?:--\S+ )*(?:CMD )?\[".*"\]$/.test(text))
  },
  {
    code: 'DL3027',
    says: 'apt-get instead of apt',
    wrong: `FROM ${base}\nRUN apt update`,
    broken: stages => commandsOf(stages, command => command.startsWith('apt '))
  },
  {
    code: 'DL3047, DL4001',
    says: 'downloads nothing that no digest checks',
    wrong: `FROM ${base}\nRUN curl https://node.example/a`,
    broken: stages => commandsOf(stages, command => /^(?:curl|wget)\b/.test(command))
  },
  {
    code: 'DL3048, DL3051',
    says: 'label keys are lower case with dots, and no label is empty',
    wrong: `FROM ${base}\nLABEL Version=""`,
    broken: stages =>
      stepsOf(stages, 'LABEL').flatMap(({ text }) => [...text.matchAll(/([\w.-]+)="([^"]*)"/g)]).filter(([
        ,
        key = '',
        value
      ]) => !labelKey.test(key) || value === '').map(([pair]) => pair)
  },
  {
    code: 'DL3059',
    says: 'no RUN follows another',
    wrong: `FROM ${base}\nRUN npm ci\nRUN npm test`,
    broken: stages =>
      stages.flatMap(({ steps }) =>
        steps.filter(({ name }, at) => name === 'RUN' && steps[at - 1]?.name === 'RUN').map(({ text }) => text)
      )
  },
  {
    code: 'DL4000, DL4003, DL4004, DL3012',
    says: 'no MAINTAINER, and one CMD, ENTRYPOINT and HEALTHCHECK',
    wrong: `FROM ${base}\nCMD ["a"]\nCMD ["b"]`,
    broken: stages => [
      ...textsOf(stepsOf(stages, 'MAINTAINER'), () => true),
      ...['CMD', 'ENTRYPOINT', 'HEALTHCHECK'].filter(name => stepsOf(stages, name).length > 1)
    ]
  },
  {
    code: 'DL4006',
    says: 'a pipe would hide the exit code of its first command',
    wrong: `FROM ${base}\nRUN npm ls | head`,
    broken: stages => textsOf(stepsOf(stages, 'RUN'), text => /[^|]\|[^|]/.test(text))
  },
  {
    code: 'SC2086',
    says: 'variables of a RUN are quoted',
    wrong: `FROM ${base}\nRUN echo $TARGETARCH`,
    broken: stages => textsOf(stepsOf(stages, 'RUN'), text => /\$/.test(text.replace(/"[^"]*"|'[^']*'/g, '')))
  }
]
