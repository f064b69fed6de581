package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every flag about files works in a server that has given up everything it can: root rights, and
// the file system apart from its directories.
func TestServeConfined(t *testing.T) {
	t.Parallel() // it waits most of the time
	for name, test := range map[string]func(*testing.T){
		"layers":          confinedLayers,
		"relative":        confinedRelative,
		"linked":          confinedLinked,
		"fold case":       confinedFoldCase,
		"overwrite":       confinedOverwrite,
		"unique":          confinedUnique,
		"upload dir":      confinedUploadDir,
		"root":            confinedRoots,
		"per client":      confinedPerClient,
		"shared":          confinedShared,
		"per client, MAC": confinedMAC,
		"map":             confinedMap,
		"access":          confinedAccess,
		"netascii":        confinedNetascii,
		"ports":           confinedPorts,
		"sweep":           confinedSweep,
		"metrics, pcap":   confinedMetrics,
	} {
		t.Run(name, test)
	}
}

// stopSettled checks that a server has given up its rights, and then stops the server.
func (c *child) stopSettled() string {
	c.t.Helper()
	c.wantSettled()
	return c.stop()
}

// Of several directories, the first that has a file serves it. Uploads are written to the first.
func confinedLayers(t *testing.T) {
	top := servedDir(t, map[string]string{"a": "top"})
	below := servedDir(t, map[string]string{"a": "below", "deep/b": "below"})
	c := startSettled(t, top, below, "--upload", "create")
	c.wantGet("a", "top")
	c.wantGet("deep/b", "below")
	c.wantNoGet("none", exitNotFound)
	c.wantPut("new", "text", 0)
	wantFile(t, filepath.Join(top, "new"), "text")
	c.wantGet("new", "text")
	c.wantPut("new", "other", exitRefused)
	c.stopSettled()
	wantNames(t, below, "a", "deep")
}

// settledIn does the same as startSettled, in the given working directory.
func settledIn(t *testing.T, dir string, args ...string) *child {
	t.Helper()
	if os.Geteuid() == 0 {
		args = append(args, "--user", "65534:65534")
	}
	return startChild(t, childOptions{dir: dir, env: []string{peekVar + "=/etc/passwd"}}, args...)
}

func confinedRelative(t *testing.T) {
	dir := servedDir(t, map[string]string{"kernel": "image"})
	c := settledIn(t, dir, ".", "--upload", "create")
	c.wantGet("kernel", "image")
	c.wantPut("log", "text", 0)
	c.stopSettled()
}

func confinedLinked(t *testing.T) {
	dir := servedDir(t, map[string]string{"kernel": "image"})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(strings.Repeat("../", 9)+"etc/passwd", filepath.Join(dir, "passwd")); err != nil {
		t.Fatal(err)
	}
	c := startSettled(t, link, "--upload", "overwrite")
	c.wantGet("kernel", "image")
	c.wantPut("kernel", "newer", 0)
	c.wantGet("kernel", "newer")
	c.wantNoGet("passwd", exitRefused)
	c.stopSettled()
}

func confinedFoldCase(t *testing.T) {
	c := startSettled(t, servedDir(t, map[string]string{"Boot/Kernel.img": "image"}), "--fold-case", "--upload", "create")
	c.wantGet("BOOT/kernel.IMG", "image")
	c.wantGet(`\boot\kernel.img`, "image")
	c.wantPut("Log", "text", 0)
	c.wantGet("lOG", "text")
	c.stopSettled()
}

func confinedOverwrite(t *testing.T) {
	dir := servedDir(t, map[string]string{"config": "old"})
	c := startSettled(t, dir, "--upload", "overwrite", "--max-upload", "10")
	c.wantPut("config", "new", 0)
	wantFile(t, filepath.Join(dir, "config"), "new")
	c.wantPut("config", "more than ten bytes", exitRefused)
	c.wantGet("config", "new")
	c.stopSettled()
	wantNames(t, dir, "config")
}

func confinedUnique(t *testing.T) {
	dir := servedDir(t, nil)
	c := startSettled(t, dir, "--upload", "unique")
	c.wantPut("core.txt", "one", 0)
	c.wantPut("core.txt", "two", 0)
	c.stopSettled()
	names, err := filepath.Glob(filepath.Join(dir, "core.2*Z.txt"))
	if err != nil || len(names) != 2 {
		t.Fatalf("found %q, %v; want two files with time stamps", names, err)
	}
	wantFile(t, names[0], "one")
	wantFile(t, names[1], "two")
}

// Uploads cannot be fetched, and nothing else can be written.
func confinedUploadDir(t *testing.T) {
	dir, uploads := servedDir(t, map[string]string{"kernel": "image"}), servedDir(t, nil)
	c := startSettled(t, dir, "--upload", "create", "--upload-dir", uploads)
	c.wantGet("kernel", "image")
	c.wantPut("log", "text", 0)
	c.wantPut("kernel", "not this one", 0)
	c.wantNoGet("log", exitNotFound)
	c.wantGet("kernel", "image")
	c.stopSettled()
	wantFile(t, filepath.Join(uploads, "log"), "text")
	wantNames(t, dir, "kernel")
}

func confinedRoots(t *testing.T) {
	mine := servedDir(t, map[string]string{"a": "mine"})
	rest := servedDir(t, map[string]string{"a": "rest"})
	for client, want := range map[string]string{
		"127.0.0.0/8":                 "mine",
		"on=127.0.0.1":                "mine",
		"52:54:00:12:34:56,127.0.0.1": "mine",
		"192.0.2.1":                   "rest",
		"on=:1":                       "rest",
		"52-54-00-12-34-56":           "rest",
	} {
		c := startSettled(t, rest, "--root", client+"="+mine, "--upload", "overwrite")
		c.wantGet("a", want)
		c.wantPut("by", client, 0)
		c.wantGet("by", client)
		c.stopSettled()
		dirs := map[string]string{"mine": mine, "rest": rest}
		wantFile(t, filepath.Join(dirs[want], "by"), client)
	}
}

func confinedPerClient(t *testing.T) {
	dir := servedDir(t, map[string]string{"a": "all", "127.0.0.1/a": "mine", "127.0.0.2/b": "another's"})
	own := filepath.Join(dir, "127.0.0.1")
	if os.Geteuid() == 0 {
		if err := os.Chown(own, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	c := startSettled(t, dir, "--per-client", "ip", "--upload", "create")
	c.wantGet("a", "mine")
	c.wantNoGet("127.0.0.2/b", exitNotFound)
	c.wantPut("log", "text", 0)
	c.stopSettled()
	wantFile(t, filepath.Join(own, "log"), "text")
}

func confinedShared(t *testing.T) {
	c := startSettled(t, servedDir(t, map[string]string{"a": "all", "b": "all", "127.0.0.1/a": "mine"}), "--per-client", "ip", "--shared")
	c.wantGet("a", "mine")
	c.wantGet("b", "all")
	c.stopSettled()
}

// The kernel can still be asked for hardware addresses. Loopback has none.
func confinedMAC(t *testing.T) {
	c := startSettled(t, servedDir(t, map[string]string{"a": "all", "52-54-00-12-34-56/a": "another's"}), "--per-client", "mac")
	c.wantGet("a", "all")
	c.wantNoGet("52-54-00-12-34-56/a", exitNotFound)
	c.stopSettled()
}

func confinedMap(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules")
	// Serve a file for the client if there is one, and the default otherwise.
	writeFile(t, rules, "rE ^conf$ by-address/\\x\nr ^conf$ default\n")
	c := startSettled(t, servedDir(t, map[string]string{"default": "default", "by-address/7F000001": "mine"}), "--map", rules)
	c.wantGet("conf", "mine")
	c.stopSettled()
	c = startSettled(t, servedDir(t, map[string]string{"default": "default"}), "--map", rules)
	c.wantGet("conf", "default")
	c.stopSettled()
}

func confinedAccess(t *testing.T) {
	dir := servedDir(t, map[string]string{"server.key": "key", "kernel": "image"})
	c := startSettled(t, dir, "--upload", "create", "--access", "deny read * *.key", "--access", "allow write 127.0.0.1 log*", "--access", "deny write *")
	c.wantGet("kernel", "image")
	c.wantNoGet("server.key", exitRefused)
	c.wantPut("log1", "text", 0)
	c.wantPut("kernel2", "text", exitRefused)
	c.stopSettled()
}

// A netascii file is scanned before it is sent.
func confinedNetascii(t *testing.T) {
	c := startSettled(t, servedDir(t, map[string]string{"text": "one\ntwo\n"}))
	if code, out, errs := haul(t, "get", "-q", "--netascii", c.url+"text", "-"); code != 0 || out != "one\ntwo\n" {
		t.Errorf("exit code %d, %q, %s", code, out, errs)
	}
	c.stopSettled()
}

func confinedPorts(t *testing.T) {
	dir := servedDir(t, map[string]string{"kernel": "image"})
	for _, flags := range [][]string{{"--single-port"}, {"--ports", "40000-60000"}, {"--no-offload"}, {"--mtu", "1500"}} {
		c := startSettled(t, append(flags, "--upload", "overwrite", dir)...)
		c.wantGet("kernel", "image")
		c.wantPut("log", "text", 0)
		c.stopSettled()
	}
}

// A server removes the temporary files that a killed server has left behind, after it has become
// another user.
func confinedSweep(t *testing.T) {
	dir := servedDir(t, map[string]string{"kernel": "image", ".haul-ABCDEFGHIJKLMNOPQRSTUVWXYZ.part": "left behind"})
	c := startSettled(t, dir, "--upload", "create")
	c.await("removed unfinished uploads", "files=1")
	c.wantGet("kernel", "image")
	c.stopSettled()
	wantNames(t, dir, "kernel")
}

func confinedMetrics(t *testing.T) {
	pcap := filepath.Join(t.TempDir(), "packets.pcapng")
	c := startSettled(t, servedDir(t, map[string]string{"kernel": "image"}), "--metrics", "127.0.0.1:0", "--pcap", pcap)
	c.wantGet("kernel", "image")
	c.await("result=done")
	c.wantSettled()
	c.wantMetric(`haul_transfers_total{direction="read",protocol="tftp",result="done"} 1`)
	c.stop()
	wantPcap(t, pcap, "kernel")
}
