// Takes the pictures and the recording of the README: shoot.mjs URL FOLDER [NAME…].
import { mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import { movie } from './webp.mjs'

const { chromium } = createRequire(new URL('../../web/package.json', import.meta.url))('playwright-core')
const [url, folder, ...only] = process.argv.slice(2)
const wanted = (name) => only.length === 0 || only.includes(name)
const WIDTH = 1280
const HEIGHT = 720
const SCALE = 0.75 // of the recording
mkdirSync(folder, { recursive: true })
const browser = await chromium.launch({
  executablePath: process.env.CHROME,
  args: [
    '--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
    '--use-gl=angle', '--use-angle=swiftshader', '--enable-unsafe-swiftshader', '--ignore-gpu-blocklist',
  ],
})

// named asks for a process by its name, until the host is there.
async function named(name) {
  for (;;) {
    const list = await fetch(`${url}/api/processes`).then((answer) => answer.json(), () => [])
    const found = list.find((p) => p.name === name)
    if (found) return found.identity
    await sleep(200)
  }
}

async function open(scheme) {
  const page = await browser.newPage({ viewport: { width: WIDTH, height: HEIGHT }, colorScheme: scheme })
  const cdp = await page.context().newCDPSession(page)
  const still = async (quality, scale) => {
    const clip = { x: 0, y: 0, width: WIDTH, height: HEIGHT, scale }
    return Buffer.from((await cdp.send('Page.captureScreenshot', { format: 'webp', quality, clip })).data, 'base64')
  }
  return { page, still }
}

async function space(page, pid) {
  await page.waitForSelector(`.space-panel:has-text("PID ${pid}")`)
  await page.click('button:text-is("Draw everything")')
  await page.click('button:text-is("Fit all")')
  await sleep(8000)
}

const web = await named('web')
const gateway = await named('gateway')
const store = await named('store')
const link = (id) => `/process/${id.pid}?start=${id.start_time_ticks}`
const LIST = '/?tree=1'

const pictures = [
  { name: 'list', path: LIST, scheme: 'dark', seconds: 45 },
  { name: 'process', path: `${link(web)}#files`, scheme: 'light', seconds: 8 },
  { name: 'stacks', path: `${link(gateway)}#stacks`, scheme: 'dark', seconds: 4 },
  {
    name: 'snapshot', path: `${link(web)}#snapshot`, scheme: 'dark', seconds: 3,
    act: (page) => page.click('.snap-take'),
  },
  {
    name: 'space', path: `/space?sel=${store.pid}@${store.start_time_ticks}`, scheme: 'dark', seconds: 8,
    act: (page) => space(page, store.pid),
  },
]
for (const p of pictures.filter(({ name }) => wanted(name))) {
  const { page, still } = await open(p.scheme)
  await page.goto(url + p.path)
  await p.act?.(page)
  await sleep(p.seconds * 1000)
  writeFileSync(`${folder}/${p.name}.webp`, await still(80, 1))
  console.log(p.name)
  await page.close()
}

// record films the way from the list to a process, what it is connected to, where it
// waits, a snapshot of it, and the space.
async function record() {
  const { page, still } = await open('dark')
  const frames = []
  const film = async (count, ms = 400) => {
    for (let i = 0; i < count; i++) {
      frames.push({ still: await still(45, SCALE), ms })
      await sleep(ms)
    }
  }
  const section = (word) => page.click(`.section-link:has-text("${word}")`)
  await page.goto(url + LIST)
  await sleep(12_000)
  await film(5)
  await page.click(`.row-link[href^="/process/${web.pid}?"]`)
  await page.waitForSelector('.identity-name')
  await sleep(3000)
  await film(6)
  await section('sockets')
  await page.waitForSelector('.peers-svg')
  await film(4, 600)
  await section('Stacks')
  await page.waitForSelector('.stack-call')
  await film(4, 600)
  await section('Snapshot')
  await page.click('.snap-take')
  await page.waitForSelector('.snap-threads')
  await film(5, 600)
  await page.goto(`${url}/space?sel=${web.pid}@${web.start_time_ticks}`)
  await space(page, web.pid)
  await film(12, 300)
  writeFileSync(`${folder}/procinsh.webp`, movie(frames, WIDTH * SCALE, HEIGHT * SCALE))
  console.log('procinsh')
}
if (wanted('procinsh')) await record()
await browser.close()
