// Takes the pictures of the README: shoot.mjs URL PID FOLDER.
import { mkdirSync } from 'node:fs'
import { createRequire } from 'node:module'

const { chromium } = createRequire(new URL('../../web/package.json', import.meta.url))('playwright-core')
const [url, pid, folder] = process.argv.slice(2)
mkdirSync(folder, { recursive: true })
const browser = await chromium.launch({
  executablePath: process.env.CHROME ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
})
const pictures = [
  { name: 'list-dark', path: '/?tree=1&q=-name:chrom+-name:node+-ppid:0', scheme: 'dark', seconds: 45 },
  { name: 'process-light', path: `/process/${pid}#files`, scheme: 'light', seconds: 8 },
]
for (const p of pictures) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 720 }, colorScheme: p.scheme })
  await page.goto(url + p.path)
  await page.waitForTimeout(p.seconds * 1000)
  await page.screenshot({ path: `${folder}/${p.name}.png` })
  await page.close()
}
await browser.close()
