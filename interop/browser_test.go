//go:build unix

package interop

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A browser is a headless Chromium, controlled by the DevTools protocol through a pair of pipes.
// Pictures of its pages are saved in the directory that HAUL_PICTURES names.
type browser struct {
	to   *os.File
	from *bufio.Reader
	last int // the number of the last call
}

// browserPatience bounds the lifetime of a browser.
const browserPatience = 2 * time.Minute

func startBrowser(t *testing.T) *browser {
	t.Helper()
	dir := peerDir(t, "chromium-headless-shell")
	p := program{path: filepath.Join(dir, "usr/lib/chromium/chromium-headless-shell"), env: libraries(dir)}
	if _, err := os.Stat(p.path); err != nil {
		absent(t, "there is no Chromium; scripts/install-peers fetches it (package chromium-headless-shell)")
	}
	for i, lib := range p.env {
		p.env[i] = lib + ":" + strings.TrimPrefix(lib, "LD_LIBRARY_PATH=") + "/pulseaudio"
	}
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), browserPatience)
	cmd := p.command(ctx, "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--ignore-certificate-errors", "--user-data-dir="+t.TempDir())
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirIn.Close(), theirOut.Close()
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		ourOut.Close()
		ourIn.Close()
	})
	return &browser{to: ourOut, from: bufio.NewReader(ourIn)}
}

// A tab is one page of a browser.
type tab struct {
	*browser
	t       *testing.T
	session string
	loaded  bool
	faults  []string // errors in the console, and violations of a policy
}

// A devtoolsMessage is a call, its answer, or an event.
type devtoolsMessage struct {
	ID      int                       `json:"id,omitempty"`
	Session string                    `json:"sessionId,omitempty"`
	Method  string                    `json:"method,omitempty"`
	Params  any                       `json:"params,omitempty"`
	Result  json.RawMessage           `json:"result,omitempty"`
	Error   *struct{ Message string } `json:"error,omitempty"`
}

type object = map[string]any

// open opens a page at a size, in a theme.
func (b *browser) open(t *testing.T, url string, width, height int, theme string) *tab {
	t.Helper()
	p := &tab{browser: b, t: t}
	target := p.call("Target.createTarget", object{"url": "about:blank"})["targetId"]
	p.session, _ = p.call("Target.attachToTarget", object{"targetId": target, "flatten": true})["sessionId"].(string)
	for _, domain := range []string{"Page", "Runtime", "Log", "DOM", "Accessibility"} {
		p.call(domain+".enable", object{})
	}
	p.call("Emulation.setDeviceMetricsOverride", object{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
	p.call("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": theme}}})
	p.load(url)
	return p
}

func (p *tab) load(url string) {
	p.t.Helper()
	p.loaded = false
	p.call("Page.navigate", object{"url": url})
	for !p.loaded {
		p.receive()
	}
}

// call calls a method, and returns its result. It records events that arrive before the result.
func (p *tab) call(method string, params object) object {
	p.t.Helper()
	p.last++
	id := p.last
	b, err := json.Marshal(devtoolsMessage{ID: id, Session: p.session, Method: method, Params: params})
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.to.Write(append(b, 0)); err != nil {
		p.t.Fatalf("%s: %v", method, err)
	}
	for {
		m := p.receive()
		switch {
		case m.ID != id:
		case m.Error != nil:
			p.t.Fatalf("%s: %s", method, m.Error.Message)
		default:
			var result object
			_ = json.Unmarshal(m.Result, &result)
			return result
		}
	}
}

func (p *tab) receive() devtoolsMessage {
	p.t.Helper()
	b, err := p.from.ReadBytes(0)
	if err != nil {
		p.t.Fatalf("the browser has ended, or took more than %v: %v", browserPatience, err)
	}
	var m devtoolsMessage
	if err := json.Unmarshal(b[:len(b)-1], &m); err != nil {
		p.t.Fatal(err)
	}
	if m.Session != p.session {
		return m
	}
	params, _ := m.Params.(object)
	switch m.Method {
	case "Page.loadEventFired":
		p.loaded = true
	case "Page.javascriptDialogOpening":
		p.faults = append(p.faults, "a dialog has opened: "+string(b))
	case "Runtime.exceptionThrown":
		p.faults = append(p.faults, string(b))
	case "Runtime.consoleAPICalled":
		if params["type"] == "error" {
			p.faults = append(p.faults, string(b))
		}
	case "Log.entryAdded":
		// An answer of 4xx, or a missing one, is logged too, but the page itself shows it.
		if e, _ := params["entry"].(object); e["level"] == "error" && e["source"] != "network" {
			p.faults = append(p.faults, fmt.Sprint(e["text"]))
		}
	}
	return m
}

// eval returns the value of a JavaScript expression, or of its promise.
func (p *tab) eval(expression string) any {
	p.t.Helper()
	r := p.call("Runtime.evaluate", object{"expression": expression, "returnByValue": true, "awaitPromise": true})
	if r["exceptionDetails"] != nil {
		p.t.Fatalf("%s: %v", expression, r["exceptionDetails"])
	}
	value, _ := r["result"].(object)
	return value["value"]
}

func (p *tab) want(expression string, want any) {
	p.t.Helper()
	if got := p.eval(expression); fmt.Sprint(got) != fmt.Sprint(want) {
		p.t.Errorf("%s is %v, want %v", expression, got, want)
	}
}

// await waits until an expression is true.
func (p *tab) await(expression string) {
	p.t.Helper()
	if p.eval(`(async () => { for (let end = Date.now() + 60000; Date.now() < end; await new Promise(r => setTimeout(r, 20))) if (`+expression+`) return true; })()`) != true {
		p.picture("failed")
		p.t.Fatalf("%s does not become true; the page has:\n%v", expression, p.eval("document.body.innerText.slice(0, 3000)"))
	}
}

func (p *tab) press(key string) {
	p.t.Helper()
	text := key
	if len(key) > 1 {
		text = ""
	}
	code := map[string]int{"Tab": 9, "Escape": 27, "/": 191}[key]
	p.call("Input.dispatchKeyEvent", object{"type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": code})
	p.call("Input.dispatchKeyEvent", object{"type": "keyUp", "key": key, "windowsVirtualKeyCode": code})
}

// picture saves a picture of the page if HAUL_PICTURES is set.
func (p *tab) picture(name string) {
	p.t.Helper()
	dir := os.Getenv("HAUL_PICTURES")
	if dir == "" {
		return
	}
	data, _ := p.call("Page.captureScreenshot", object{"format": "png"})["data"].(string)
	b, err := base64.StdEncoding.DecodeString(data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), b, 0o644)
	}
	if err != nil {
		p.t.Error(err)
	}
}

// contrasts is a JavaScript function that returns the texts whose contrast with their background
// is too low (WCAG 2.2, success criterion 1.4.3, level AA).
const contrasts = `() => {
	const parse = c => { const n = c.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
	const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
	const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c; } return [255, 255, 255]; };
	const low = [];
	const check = (e, style, text) => {
		const a = light(parse(style.color)), b = light(behind(e)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
		if (ratio < 4.5) low.push(ratio.toFixed(2) + ' ' + text.slice(0, 40));
	};
	for (const e of document.body.querySelectorAll('*')) {
		if (!e.checkVisibility() || /^(SCRIPT|STYLE)$/.test(e.tagName)) continue;
		const text = [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.data).join('').trim();
		if (text) check(e, getComputedStyle(e), text);
		if (e.placeholder) check(e, getComputedStyle(e, '::placeholder'), e.placeholder);
	}
	return low.join('\n');
}`

// wantSound checks the requirements for every page: no wider than the screen, legible, named for
// screen readers, and without errors.
func (p *tab) wantSound() {
	p.t.Helper()
	p.want("document.documentElement.scrollWidth > innerWidth ? document.documentElement.scrollWidth : 0", 0)
	p.want("("+contrasts+")()", "")
	nodes, _ := p.call("Accessibility.getFullAXTree", object{})["nodes"].([]any)
	for _, n := range nodes {
		node, _ := n.(object)
		role, _ := node["role"].(object)
		name, _ := node["name"].(object)
		switch role["value"] {
		case "link", "button", "searchbox", "textbox", "progressbar", "columnheader", "navigation", "heading":
			if name["value"] == "" && node["ignored"] != true {
				p.t.Errorf("a %v has no name: %v", role["value"], node)
			}
		}
	}
	for _, fault := range p.faults {
		p.t.Errorf("the browser reports: %s", fault)
	}
}
