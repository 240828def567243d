import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { cli, compile } from './compile.js'
import { at, giveUpOn, say, start } from './ground.js'

// Runs the commands of the quick start against a sandbox, and writes what they print to an animated picture.
const read = 'curl -si \'http://127.0.0.1:8080/v1/accounts/0x1/modules?ledger_version=2000\' | grep -i ^cache-status'
const commands = [
  read,
  read,
  read.replace('0x1', '01').replace('=2000', '=%2B2000'),
  'curl -s http://127.0.0.1:9464/metrics | grep -E \'^varve_requests_total.*(memory|miss).*[1-9]$\'',
  'curl -s http://127.0.0.1:9464/readyz'
]

const label = 'A terminal: a miss, a hit, and a hit in another notation'

giveUpOn(await compile())
const varve = start([process.execPath, at(cli), 'serve', '--sandbox'], { stdio: ['ignore', 'ignore', 'ignore'] })
varve.ended.then(({ code }) => code === 0 || giveUpOn(`varve exited with ${code}: are ports 8080 and 9464 free?`))
await untilReady()
const lines = ['$ varve serve --sandbox &']
for (const command of commands) {
  lines.push(`$ ${command}`)
  lines.push(...execFileSync('sh', ['-c', command], { encoding: 'utf8' }).trimEnd().split(/\r?\n/), '')
}
varve.child.kill('SIGINT')
await varve.ended
for (const [file, colours] of Object.entries(themes())) writeFileSync(at('docs/images', file), picture(lines, colours))
say('wrote docs/images/terminal.svg and terminal-dark.svg')

async function untilReady () {
  for (let nth = 0; nth < 100; nth++) {
    if (await fetch('http://127.0.0.1:9464/readyz').then(({ ok }) => ok, () => false)) return
    await pause(100)
  }
  giveUpOn('the sandbox is not ready: are ports 8080 and 9464 free?')
}

function themes () {
  return {
    'terminal.svg': { ground: '#ffffff', edge: '#d0d7de', text: '#1f2328', command: '#0550ae' },
    'terminal-dark.svg': { ground: '#0d1117', edge: '#30363d', text: '#e6edf3', command: '#79c0ff' }
  }
}

// Shows a command, then what it printed; without motion where the reader prefers none.
function picture (lines, { ground, edge, text, command }) {
  const lineHeight = 19
  const height = lines.length * lineHeight + 30
  let seconds = 0
  const shown = lines.map((line, nth) => {
    const isCommand = line.startsWith('$ ')
    seconds += isCommand ? 1.6 : 0.15
    const style = `class="${isCommand ? 'command' : 'output'}" style="animation-delay:${seconds.toFixed(2)}s"`
    return `  <text x="16" y="${28 + nth * lineHeight}" ${style}>${escape(line)}</text>`
  })
  const size = `viewBox="0 0 960 ${height}" width="960" height="${height}"`
  const font = 'font-family="ui-monospace, \'DejaVu Sans Mono\', monospace" font-size="13" xml:space="preserve"'
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img" aria-label="${label}" ${font}>
  <style>
    .ground { fill: ${ground}; stroke: ${edge} }
    text { fill: ${text}; opacity: 0; animation: show 0.2s forwards }
    .command { fill: ${command} }
    @keyframes show { to { opacity: 1 } }
    @media (prefers-reduced-motion: reduce) { text { opacity: 1; animation: none } }
  </style>
  <rect class="ground" x="0.5" y="0.5" width="959" height="${height - 1}" rx="8"/>
${shown.join('\n')}
</svg>
`
}

function escape (text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
