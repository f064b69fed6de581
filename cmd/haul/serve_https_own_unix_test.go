//go:build unix

package main

import (
	"bytes"
	"crypto/tls"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Without --cert, HTTPS uses a certificate that persists. Clients can check it by its fingerprint
// alone, and the metrics show when it expires.
func TestServeOwnCertificate(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir, state, here := servedDir(t, map[string]string{"kernel": "image"}), t.TempDir(), t.TempDir()
	start := func(want string) (url, fingerprint string) {
		s := &httpChild{child: runChild(t, childOptions{env: []string{"STATE_DIRECTORY=" + state}}, "serve", "--https", "127.0.0.1:0", "--metrics", "127.0.0.1:0", dir)}
		s.awaitHTTP("https")
		pair, err := tls.LoadX509KeyPair(filepath.Join(state, "https.pem"), filepath.Join(state, "https.pem"))
		if err != nil {
			t.Fatal(err)
		}
		s.wantMetric("haul_certificate_expiry_timestamp_seconds " + strconv.FormatFloat(float64(pair.Leaf.NotAfter.Unix()), 'g', -1, 64))
		text := s.await("HTTPS: "+want+" self-signed certificate "+filepath.Join(state, "https.pem"), "--fingerprint ", "\n")
		return s.at, regexp.MustCompile(`--fingerprint ([0-9a-f]{64})\b`).FindStringSubmatch(s.stderr.String() + text)[1]
	}
	url, sum := start("made the")
	var colons bytes.Buffer
	for i := range 32 {
		colons.WriteString(strings.ToUpper(sum[2*i : 2*i+2]))
		colons.WriteString(":")
	}
	file := filepath.Join(here, "kernel")
	for _, good := range []string{sum, strings.TrimSuffix(colons.String(), ":")} {
		if code, _, msg := haul(t, "get", "-q", "--fingerprint", good, url+"/kernel", here); code != 0 {
			t.Errorf("--fingerprint %s: exit code %d, %s", good, code, msg)
		}
		wantFile(t, file, "image")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if said := messageOf(t, "get", "-q", url+"/kernel", here); !strings.Contains(said, "--fingerprint "+sum+" trusts it") {
		t.Errorf("without: %s", said)
	}
	if said := messageOf(t, "get", "-q", strings.Replace(url, "127.0.0.1", "127.0.0.2", 1)+"/kernel", here); strings.Contains(said, "not for 127.0.0.2") {
		t.Errorf("another name: %s", said)
	}
	for args, want := range map[string]string{
		"--fingerprint " + strings.Repeat("0", 64):   "has the SHA-256 fingerprint " + sum,
		"--fingerprint 1234":                         "64 hexadecimal digits",
		"--fingerprint " + strings.Repeat("x", 64):   "64 hexadecimal digits",
		"--insecure --fingerprint " + sum:            "leave out --cacert and --insecure",
		"--cacert " + file + " --fingerprint " + sum: "leave out --cacert and --insecure",
	} {
		code, _, msg := haul(t, append(strings.Fields("get -q "+args), url+"/kernel", here)...)
		if code == 0 || !strings.Contains(msg, want) {
			t.Errorf("%s: exit code %d, %s", args, code, msg)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a file has come from a server that is not trusted")
	}
	if _, again := start("the"); again != sum {
		t.Errorf("the next server has %s, want %s", again, sum)
	}
}

// If the certificate cannot be stored, the server does not start, and the error gives advice.
func TestServeOwnCertificateBad(t *testing.T) {
	state := t.TempDir()
	t.Setenv("STATE_DIRECTORY", state)
	args := []string{"serve", "--https", "127.0.0.1:0"}
	if code, msg := refuse(t, append(args, state)...); code != exitUsage || !strings.Contains(msg, "which is served") || !strings.Contains(msg, "--cert FILE") {
		t.Errorf("it would be served: exit code %d, %s", code, msg)
	}
	dir := servedDir(t, nil)
	writeFile(t, filepath.Join(state, "https.pem"), "no key")
	if code, msg := refuse(t, append(args, dir)...); code != exitLocal || !strings.Contains(msg, "https.pem") || !strings.Contains(msg, "--cert FILE") {
		t.Errorf("a bad file: exit code %d, %s", code, msg)
	}
	t.Setenv("STATE_DIRECTORY", filepath.Join(state, "https.pem"))
	if code, msg := refuse(t, append(args, dir)...); code != exitLocal || !strings.Contains(msg, "not a directory") {
		t.Errorf("no directory: exit code %d, %s", code, msg)
	}
	empty := t.TempDir()
	t.Setenv("STATE_DIRECTORY", empty)
	if code, _, msg := haul(t, append(args, "--dry-run", dir)...); code != 0 {
		t.Errorf("--dry-run: exit code %d, %s", code, msg)
	}
	if left, _ := os.ReadDir(empty); len(left) > 0 {
		t.Errorf("--dry-run has made %v", left)
	}
}
