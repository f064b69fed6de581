//go:build unix

package interop

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

var statusSaid = regexp.MustCompile(`status page at (http://\S+)/`)

// slowFile is the size of a file whose transfer lasts for a test.
const slowFile = 64 << 20

// tftpRequest returns a request for a file.
func tftpRequest(opcode byte, name string, options ...string) []byte {
	b := append([]byte{0, opcode}, name+"\x00octet\x00"...)
	for _, o := range options {
		b = append(append(b, o...), 0)
	}
	return b
}

// readSlowly reads a file by TFTP, with a pause after each window, until the test ends.
func readSlowly(t *testing.T, server, name string, pause time.Duration) {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	to, err := net.ResolveUDPAddr("udp", server)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.WriteTo(tftpRequest(1, name, "tsize", "0", "blksize", "1428", "windowsize", "4"), to); err != nil {
		t.Fatal(err)
	}
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil || n < 4 || buf[1] == 5 {
				return
			}
			block := uint16(0) // an OACK
			if buf[1] == 3 {
				if block = binary.BigEndian.Uint16(buf[2:]); block%4 != 0 {
					continue
				}
				time.Sleep(pause)
			}
			_, _ = c.WriteTo(binary.BigEndian.AppendUint16([]byte{0, 4}, block), from)
		}
	}()
}

// writeRefused requests to write an existing file by TFTP.
func writeRefused(t *testing.T, server, name string) {
	t.Helper()
	to, err := net.ResolveUDPAddr("udp", server)
	if err != nil {
		t.Fatal(err)
	}
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	_ = u.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := u.WriteTo(tftpRequest(2, name), to); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 512)
	if n, _, err := u.ReadFrom(answer); err != nil || n < 4 || answer[1] != 5 {
		t.Fatalf("a write of %q was answered by %q, %v", name, answer[:max(n, 0)], err)
	}
}

// serveBusy serves files with hostile names to slow clients, and refuses others.
func serveBusy(t *testing.T) (page string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range append(hostileNames, "vmlinuz-6.1.0-amd64", "initrd.img") {
		name = strings.ReplaceAll(name, "/", "\u2215")
		f, err := os.Create(filepath.Join(dir, name))
		if err == nil {
			err = f.Truncate(slowFile)
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	d := haul(t).start(t, "serve", dir, "--tftp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--upload", "create", "--rate", "-1", "--status", "127.0.0.1:0")
	page = d.ready(t, statusSaid)[1]
	said := d.said(100)
	find := func(pattern string) string {
		m := regexp.MustCompile(pattern).FindStringSubmatch(said)
		if m == nil {
			t.Fatalf("no %s in %s", pattern, said)
		}
		return m[1]
	}
	tftp, web := find(`tftp://(\S+)`), find(`on (http://\S+)`)
	for i, name := range append(hostileNames, "vmlinuz-6.1.0-amd64", "initrd.img") {
		name = strings.ReplaceAll(name, "/", "\u2215")
		readSlowly(t, tftp, name, time.Duration(20+20*i)*time.Millisecond)
		writeRefused(t, tftp, name)
	}
	answer, err := http.Get(web + "/initrd.img")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	go func() {
		buf := make([]byte, 256<<10)
		for {
			if _, err := io.ReadFull(answer.Body, buf); err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return page
}

// The status page fits a desktop and a phone, is legible in both themes, and shows changes;
// hostile names appear as text.
func TestStatusBrowser(t *testing.T) {
	t.Parallel()
	page := serveBusy(t)
	b := startBrowser(t)
	all := len(hostileNames) + 3
	for _, width := range []int{1280, 390} {
		for _, theme := range []string{"light", "dark"} {
			t.Run(fmt.Sprint(theme, width), func(t *testing.T) {
				p := b.open(t, page+"/", width, 844, theme)
				p.await("document.getElementById('live').innerText === 'Updated every second.'")
				p.await(fmt.Sprint("document.getElementById('transfers').rows.length === ", all))
				p.await(fmt.Sprint("document.getElementById('failures').rows.length === ", len(hostileNames)+2))
				p.eval("window.before = document.getElementById('transfers').innerText")
				p.await("document.getElementById('transfers').innerText !== window.before")
				p.await("document.querySelector('#chart .line').getAttribute('d').includes('L')")
				p.want("document.querySelectorAll('img, b, script').length", 1)
				p.want("[...document.querySelectorAll('#transfers bdi')].some(e => e.textContent === '<img src=x onerror=alert(1)>')", true)
				p.want("document.querySelectorAll('#transfers progress').length", all)
				p.want("getComputedStyle(document.querySelector('.skip')).left.startsWith('-')", true)
				p.press("Tab")
				p.want("document.activeElement.innerText + (document.activeElement.getBoundingClientRect().left >= 0)", "Skip to the transferstrue")
				p.want("getComputedStyle(document.activeElement).outlineStyle", "solid")
				p.wantSound()
				p.picture("status-" + theme + fmt.Sprint(width))
				p.want("[...document.querySelectorAll('bdi')].some(e => e.textContent.includes('\u202e'))", false)
				p.eval("document.getElementById('last-hour').scrollIntoView()")
				p.picture("status-hour-" + theme + fmt.Sprint(width))
				p.eval("document.querySelector('details').open = true; scrollTo(0, document.body.scrollHeight)")
				p.wantSound()
				p.picture("status-end-" + theme + fmt.Sprint(width))
				p.eval("document.getElementById('pause').click()")
				p.want("document.getElementById('pause').getAttribute('aria-pressed') + document.getElementById('live').innerText", "truePaused.")
				p.eval("document.getElementById('pause').click()")
				p.await("document.getElementById('live').innerText === 'Updated every second.'")
			})
		}
	}
}

// After a reload with another protocol, the open page shows that too.
func TestStatusBrowserReload(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "haul.toml")
	if err := os.WriteFile(filepath.Join(dir, "kernel"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	configure := func(more string) {
		t.Helper()
		settings := fmt.Sprintf("dirs = [%q]\n[tftp]\nlisten = [\"127.0.0.1:0\"]\n[status]\nlisten = \"127.0.0.1:0\"\n", dir)
		if err := os.WriteFile(file, []byte(settings+more), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("")
	d := haul(t).start(t, "serve", "--restartable", "--config", file)
	page := d.ready(t, statusSaid)[1]
	p := startBrowser(t).open(t, page+"/", 1280, 844, "light")
	p.await("document.getElementById('live').innerText === 'Updated every second.'")
	p.want("document.getElementById('protocols').rows.length", 1)
	// A slow client keeps the old process alive. If that ended, the new one would be killed too,
	// because they are in one process group.
	readSlowly(t, regexp.MustCompile(`on tftp://(\S+)`).FindStringSubmatch(d.said(100))[1], "kernel", time.Second)
	p.await("document.getElementById('transfers').rows.length === 1")
	configure("[http]\nlisten = [\"127.0.0.1:0\"]\n")
	p.loaded = false
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for !p.loaded {
		p.receive()
	}
	p.await("document.getElementById('protocols').rows.length === 2")
	p.await("document.getElementById('legend').innerText.includes('HTTP')")
	p.await("document.getElementById('live').innerText === 'Updated every second.'")
	p.eval("window.before = document.getElementById('up').innerText")
	p.await("document.getElementById('up').innerText !== window.before")
}

// Without scripts, all tables are shown.
func TestStatusBrowserWithoutScripts(t *testing.T) {
	t.Parallel()
	page := serveBusy(t)
	p := startBrowser(t).open(t, "about:blank", 390, 844, "dark")
	p.call("Emulation.setScriptExecutionDisabled", object{"value": true})
	p.load(page + "/")
	p.want("document.getElementById('transfers').rows.length", len(hostileNames)+3)
	p.want("document.getElementById('failures').rows.length", len(hostileNames)+2)
	p.want("document.getElementById('pause').checkVisibility()", false)
	p.wantSound()
}
