// Drives OpenClaw's Control UI, as the gateway serves it, in headless Chromium: node control-ui.mjs URL TOKEN SCREENS
// The driver is the one that comes with OpenClaw's package.
import { createRequire } from "node:module";
import path from "node:path";

const [url, token, screens] = process.argv.slice(2);
const beside = process.env.OPENCLAW_DIR ?? screens;
const require = createRequire(path.join(beside, "package.json"));
const { chromium } = require("playwright-core");

const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
let shot = 0;
const page = await browser.newPage({ viewport: { width: 1280, height: 850 } });
const keep = async (name) => page.screenshot({ path: path.join(screens, `ui-${++shot}-${name}.png`) });
const shows = async (text, name) => {
  try {
    await page.getByText(text).first().waitFor({ timeout: 20_000 });
  } catch (error) {
    await keep(`missing-${name}`);
    throw new Error(`the page does not show ${JSON.stringify(text)}: ${error.message.split("\n")[0]}`);
  }
  await keep(name);
};
const say = async (text) => {
  const box = page.locator("textarea:visible").first();
  await box.waitFor({ timeout: 20_000 });
  await box.fill(text);
  await box.press("Enter");
};

let status = 0;
try {
  await page.goto(`${url}/chat#token=${token}`);
  await say("say 6 words");
  await shows("one two three four five six", "turn");
  await say("run: echo from-the-page");
  await shows("from-the-page", "tool");
  await say("wait 30");
  await page.waitForTimeout(2_000);
  await keep("waiting");
  const stop = page.getByRole("button", { name: /stop|abort/i }).first();
  await stop.click({ timeout: 10_000 });
  await page.waitForTimeout(1_500);
  await keep("stopped");
  await page.reload();
  await shows("one two three four five six", "after-a-reload");
  await say("say 3 words");
  await shows("one two three", "after-it");
} catch (error) {
  console.error(error.message);
  status = 1;
}
await browser.close();
process.exit(status);
