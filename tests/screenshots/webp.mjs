// Joins pictures into one moving WebP. A still picture of the format is its frame already:
// what is added is the container (developers.google.com/speed/webp/docs/riff_container).

const chunk = (name, ...parts) => {
  const data = Buffer.concat(parts)
  const head = Buffer.alloc(8)
  head.write(name, 'latin1')
  head.writeUInt32LE(data.length, 4)
  return Buffer.concat([head, data, Buffer.alloc(data.length % 2)])
}

const number = (n, bytes) => {
  const out = Buffer.alloc(bytes)
  out.writeUIntLE(n, 0, bytes)
  return out
}

// bitstream is what a still picture says of its pixels, without its container.
function bitstream(still) {
  if (still.toString('latin1', 0, 4) !== 'RIFF' || still.toString('latin1', 8, 12) !== 'WEBP') throw new Error('no WebP')
  const found = []
  for (let at = 12; at + 8 <= still.length; ) {
    const name = still.toString('latin1', at, at + 4)
    const size = still.readUInt32LE(at + 4)
    if (['ALPH', 'VP8 ', 'VP8L'].includes(name)) found.push(chunk(name, still.subarray(at + 8, at + 8 + size)))
    at += 8 + size + (size % 2)
  }
  if (found.length === 0) throw new Error('a WebP without pixels')
  return Buffer.concat(found)
}

// movie joins frames of {still, ms}, all of one size; those that follow an equal one
// only make it longer. It is played again and again.
export function movie(frames, width, height) {
  const kept = []
  for (const { still, ms } of frames) {
    const last = kept.at(-1)
    if (last?.still.equals(still)) last.ms += ms
    else kept.push({ still, ms })
  }
  const size = [number(width - 1, 3), number(height - 1, 3)]
  const parts = kept.map(({ still, ms }) =>
    chunk('ANMF', number(0, 3), number(0, 3), ...size, number(ms, 3), number(2, 1), bitstream(still)),
  )
  const body = [Buffer.from('WEBP'), chunk('VP8X', number(2, 1), number(0, 3), ...size), chunk('ANIM', number(0, 4), number(0, 2)), ...parts]
  return chunk('RIFF', ...body)
}
