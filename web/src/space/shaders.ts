// The programs of the scene, GLSL ES 3.00. Places and states come from textures with a
// texel a process, so that a process changes by one texel however many boxes it has.

// What every vertex program starts with; the library adds the version and no more.
const HEAD = /* glsl */ `
precision highp float;
precision highp int;
uniform mat4 projectionMatrix;
uniform mat4 viewMatrix;
in vec3 position;
`;

const NORMAL = /* glsl */ `
in vec3 normal;
`;

const PLACES = /* glsl */ `
${HEAD}${NORMAL}
uniform highp sampler2D uPlace;
uniform highp sampler2D uBefore;
uniform highp sampler2D uState;
uniform float uMix;
uniform float uTime;
ivec2 texel(float i) { int n = int(i + 0.5); return ivec2(n & 127, n >> 7); }
vec4 placeOf(float i) { return mix(texelFetch(uBefore, texel(i), 0), texelFetch(uPlace, texel(i), 0), uMix); }
vec4 stateOf(float i) { return texelFetch(uState, texel(i), 0); }
float cpuOf(vec4 s) { return s.w > 0.5 ? s.x * max(0.0, 1.0 - (uTime - s.z) / 0.5) : s.x; }
`;

// box: index, from, to, kind. Cards have their slot in y and stand beside the tower.
export const BOX_VERTEX = /* glsl */ `
${PLACES}
uniform vec3 uKinds[16];
uniform vec3 uGround;
uniform float uCards;
in vec4 box;
out vec3 vColour;
out vec3 vAt;
out float vHatch;
out float vDim;
out float vTint;
void main() {
  vec4 p = placeOf(box.x);
  vec4 s = stateOf(box.x);
  int kind = int(box.w + 0.5);
  bool card = kind == 13 || kind == 14;
  vec3 at;
  if (card) {
    float column = floor(box.y / 8.0);
    float row = mod(box.y, 8.0);
    at = vec3(p.x + 0.4 + column * 0.03 + position.x * 0.02, p.z + 0.06 + row * 0.11 + (position.y - 0.5) * 0.07, p.y + position.z * 0.5);
  } else {
    float low = p.z + p.w * box.y;
    float high = p.z + p.w * box.z - min(0.02, p.w * (box.z - box.y) * 0.25);
    at = vec3(p.x + position.x * 0.66, mix(low, high, position.y), p.y + position.z * 0.66);
  }
  vec3 colour = uKinds[kind];
  float light = normal.y > 0.5 ? 1.0 : abs(normal.x) > 0.5 ? 0.78 : 0.62;
  float grey = dot(colour, vec3(0.3, 0.59, 0.11));
  float busy = card || kind == 12 ? 1.0 : smoothstep(0.0, 0.03, cpuOf(s));
  colour = mix(mix(mix(vec3(grey), colour, 0.36), uGround, 0.32), colour, busy);
  vColour = colour * light;
  vDim = s.y > 0.5 && s.y < 1.5 ? 1.0 : 0.0;
  vTint = s.y > 1.5 ? 0.22 : 0.0;
  vHatch = kind == 11 ? 1.0 : 0.0;
  vAt = at;
  float shown = p.w > 0.0 && (!card || uCards > 0.5) ? 1.0 : 0.0;
  gl_Position = projectionMatrix * viewMatrix * vec4(at * shown, 1.0) * shown;
}
`;

export const BOX_FRAGMENT = /* glsl */ `
precision highp float;
uniform vec3 uGround;
uniform vec3 uFocus;
in vec3 vColour;
in vec3 vAt;
in float vHatch;
in float vDim;
in float vTint;
out vec4 colour;
void main() {
  vec3 c = vColour;
  if (vHatch > 0.5 && fract((vAt.x + vAt.y + vAt.z) * 6.0) < 0.4) c *= 0.45;
  c = mix(c, uFocus, vTint);
  c = mix(c, uGround, vDim * 0.55);
  colour = vec4(c, 1.0);
}
`;

// who: index, and 0 for the lamp on its roof or 1 for the hollow frame of one that is stuck.
export const LAMP_VERTEX = /* glsl */ `
${PLACES}
in vec2 who;
out float vLight;
out float vDim;
out float vFrame;
out vec2 vAt;
void main() {
  vec4 p = placeOf(who.x);
  vec4 s = stateOf(who.x);
  float cpu = cpuOf(s);
  float tall = cpu < 0.002 ? 0.0 : 0.05 + 0.85 * pow(min(cpu, 4.0), 0.6);
  float wide = 0.4;
  if (who.y > 0.5) {
    tall = 0.1;
    wide = 0.86;
  }
  vec3 at = vec3(p.x + position.x * wide, p.z + p.w + position.y * tall, p.y + position.z * wide);
  vLight = normal.y > 0.5 ? 1.0 : abs(normal.x) > 0.5 ? 0.84 : 0.7;
  vDim = s.y > 0.5 && s.y < 1.5 ? 1.0 : 0.0;
  vFrame = who.y;
  vAt = position.xz;
  float shown = tall > 0.0 && p.w > 0.0 ? 1.0 : 0.0;
  gl_Position = projectionMatrix * viewMatrix * vec4(at, 1.0) * shown;
}
`;

export const LAMP_FRAGMENT = /* glsl */ `
precision highp float;
uniform vec3 uCpu;
uniform vec3 uBad;
uniform vec3 uGround;
in float vLight;
in float vDim;
in float vFrame;
in vec2 vAt;
out vec4 colour;
void main() {
  if (vFrame > 0.5 && max(abs(vAt.x), abs(vAt.y)) < 0.39) discard;
  vec3 c = vFrame > 0.5 ? uBad : uCpu;
  colour = vec4(mix(c * vLight, uGround, vDim * 0.55), 1.0);
}
`;

// rect: x, z, w, d; rectBefore the same; more: y, depth, mark.
export const PLATE_VERTEX = /* glsl */ `
${HEAD}${NORMAL}
uniform float uMix;
uniform float uFlat;
in vec4 rect;
in vec4 rectBefore;
in vec3 more;
out float vDepth;
out float vMark;
out float vLight;
out vec2 vAt;
out vec2 vSize;
void main() {
  vec4 r = mix(rectBefore, rect, uMix);
  float lift = uFlat > 0.5 ? 0.0 : more.x;
  vec3 at = vec3(r.x + r.z * (position.x + 0.5), lift - 0.09 + position.y * 0.09, r.y + r.w * (position.z + 0.5));
  if (r.z > 2.0) at.x = r.x + 0.1 + (r.z - 0.2) * (position.x + 0.5);
  if (r.w > 2.0) at.z = r.y + 0.1 + (r.w - 0.2) * (position.z + 0.5);
  vDepth = more.y;
  vMark = more.z;
  vLight = normal.y > 0.5 ? 1.0 : 0.6;
  vAt = vec2(position.x + 0.5, position.z + 0.5) * r.zw;
  vSize = r.zw;
  gl_Position = projectionMatrix * viewMatrix * vec4(at, 1.0);
}
`;

export const PLATE_FRAGMENT = /* glsl */ `
precision highp float;
uniform vec3 uLow;
uniform vec3 uHigh;
uniform vec3 uFocus;
uniform vec3 uEdge;
uniform vec3 uGround;
in float vDepth;
in float vMark;
in float vLight;
in vec2 vAt;
in vec2 vSize;
out vec4 colour;
void main() {
  vec3 c = mix(uLow, uHigh, min(1.0, vDepth * 0.15));
  // A hairline along the edge, as wide on the screen wherever it is.
  vec2 near = min(vAt, vSize - vAt) / max(fwidth(vAt), vec2(1e-5));
  c = mix(c, uEdge, 0.75 * (1.0 - smoothstep(0.8, 1.8, min(near.x, near.y))));
  if (vMark > 1.5) c = mix(c, uFocus, 0.34);
  c *= vLight;
  if (vMark > 0.5 && vMark < 1.5) c = mix(c, uGround, 0.5);
  colour = vec4(c, 1.0);
}
`;

export const LINE_VERTEX = /* glsl */ `
${HEAD}
in vec4 tone;
out vec4 vTone;
void main() {
  vTone = tone;
  gl_Position = projectionMatrix * viewMatrix * vec4(position, 1.0);
}
`;

export const LINE_FRAGMENT = /* glsl */ `
precision highp float;
in vec4 vTone;
out vec4 colour;
void main() { colour = vTone; }
`;

// from, to: world; pulse: start, duration, write, size in px.
export const PULSE_VERTEX = /* glsl */ `
${HEAD}
uniform float uTime;
uniform float uRatio;
in vec3 from;
in vec3 to;
in vec4 pulse;
out float vWrite;
void main() {
  float t = (uTime - pulse.x) / pulse.y;
  vWrite = pulse.z;
  vec3 at = mix(from, to, t);
  at.y += (0.6 + 0.22 * distance(from.xz, to.xz)) * 4.0 * t * (1.0 - t);
  bool on = t >= 0.0 && t <= 1.0 && pulse.y > 0.0;
  gl_Position = on ? projectionMatrix * viewMatrix * vec4(at, 1.0) : vec4(2.0, 2.0, 2.0, 1.0);
  gl_PointSize = pulse.w * uRatio;
}
`;

export const PULSE_FRAGMENT = /* glsl */ `
precision highp float;
uniform vec3 uRead;
uniform vec3 uWrite;
in float vWrite;
out vec4 colour;
void main() { colour = vec4(vWrite > 0.5 ? uWrite : uRead, 1.0); }
`;
