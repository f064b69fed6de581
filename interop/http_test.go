//go:build unix

package interop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var urlSaid = regexp.MustCompile(`serving \S+ on (https?://127\.0\.0\.1:\d+)`)

// serveWeb starts haul with files for HTTP, or HTTPS, and returns its URL.
func serveWeb(t *testing.T, dir string, args ...string) (url string, d *daemon) {
	t.Helper()
	d = haul(t).start(t, append([]string{"serve", dir}, args...)...)
	return d.ready(t, urlSaid)[1], d
}

// do runs a program that must succeed, and returns its output.
func do(t *testing.T, p program, args ...string) string {
	t.Helper()
	out, err := p.run(t.Context(), args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(p.path), strings.Join(args, " "), err, out)
	}
	return out
}

// The sizes that matter to HTTP: nothing, a little, exactly one read, and much.
var webSizes = []int{0, 1, 16 << 10, 16<<10 + 1, 5<<20 + 3}

// Curl downloads and uploads files: completely, partially, and resumed.
func TestHTTPCurl(t *testing.T) {
	curl := find(t, "curl", "curl")
	run := func(args ...string) string {
		t.Helper()
		return do(t, curl, append([]string{"--silent", "--show-error", "--fail", "--max-time", "60"}, args...)...)
	}
	dir, here := t.TempDir(), t.TempDir()
	url, _ := serveWeb(t, dir, "--http", "127.0.0.1:0", "--upload", "create", "--listing")
	local := filepath.Join(here, "local")
	for _, size := range webSizes {
		if err := os.WriteFile(filepath.Join(dir, "file"), content(size), 0o644); err != nil {
			t.Fatal(err)
		}
		run("--output", local, url+"/file")
		if size > 0 {
			wantFile(t, local, content(size))
		}
		head := run("--head", url+"/file")
		for _, want := range []string{"200 OK", "Accept-Ranges: bytes", "Content-Length: "} {
			if !strings.Contains(head, want) {
				t.Errorf("HEAD lacks %q:\n%s", want, head)
			}
		}
	}
	all := content(webSizes[len(webSizes)-1])
	run("--output", local, "--range", "1000-70000", url+"/file")
	wantFile(t, local, all[1000:70001])
	if err := os.WriteFile(local, all[:12345], 0o644); err != nil {
		t.Fatal(err)
	}
	run("--output", local, "--continue-at", "-", url+"/file")
	wantFile(t, local, all)
	if list := run("-H", "Accept: application/json", url+"/"); !strings.Contains(list, `"name":"file"`) {
		t.Errorf("listing: %s", list)
	}

	whole := filepath.Join(here, "whole")
	for i, size := range webSizes {
		if err := os.WriteFile(whole, content(size), 0o644); err != nil {
			t.Fatal(err)
		}
		name := "new" + string(rune('0'+i))
		run("--upload-file", whole, url+"/"+name)
		wantFile(t, filepath.Join(dir, name), content(size))
	}
	if out, err := curl.run(t.Context(), "--silent", "--show-error", "--fail", "--upload-file", whole, url+"/new1"); err == nil {
		t.Errorf("--upload create replaced a file: %s", out)
	}
	wantFile(t, filepath.Join(dir, "new1"), content(1))
	for _, bad := range []string{"/../secret", "/%2e%2e/secret", "/nowhere", "/..%2fsecret"} {
		if out, err := curl.run(t.Context(), "--silent", "--fail", "--path-as-is", url+bad); err == nil {
			t.Errorf("%s is answered: %q", bad, out)
		}
	}
}

// Busybox's small wget speaks HTTP/1.0, as boot loaders do.
func TestHTTPBusybox(t *testing.T) {
	wget := find(t, "busybox", "busybox")
	dir := t.TempDir()
	url, _ := serveWeb(t, dir, "--http", "127.0.0.1:0")
	for _, size := range webSizes {
		if err := os.WriteFile(filepath.Join(dir, "file"), content(size), 0o644); err != nil {
			t.Fatal(err)
		}
		local := filepath.Join(t.TempDir(), "local")
		do(t, wget, "wget", "-q", "-O", local, url+"/file")
		wantFile(t, local, content(size))
		if size < 2 {
			continue
		}
		if err := os.WriteFile(local, content(size)[:size/2], 0o644); err != nil {
			t.Fatal(err)
		}
		do(t, wget, "wget", "-q", "-c", "-O", local, url+"/file")
		wantFile(t, local, content(size))
	}
	if out, err := wget.run(t.Context(), "wget", "-q", "-O", "-", url+"/nowhere"); err == nil {
		t.Errorf("what is not there was got: %s", out)
	}
}

// This is the same over HTTPS, with HTTP/2 if both sides support it, and our own certificate.
func TestHTTPSCurl(t *testing.T) {
	curl := find(t, "curl", "curl")
	dir, keys := t.TempDir(), t.TempDir()
	cert := filepath.Join(keys, "cert.pem")
	selfSign(t, cert, time.Hour)
	url, _ := serveWeb(t, dir, "--https", "127.0.0.1:0", "--cert", cert)
	all := content(webSizes[len(webSizes)-1])
	if err := os.WriteFile(filepath.Join(dir, "file"), all, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"--http1.1", "--http2"} {
		local := filepath.Join(t.TempDir(), "local")
		do(t, curl, "--silent", "--show-error", "--fail", "--max-time", "60", version, "--cacert", cert, "--output", local, url+"/file")
		wantFile(t, local, all)
	}
}

// selfSign writes a certificate for 127.0.0.1 and its key into one file.
func selfSign(t *testing.T, name string, life time.Duration) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	b = append(b, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Programs by others unpack haul's archives, from a file and, including zip, from a stream.
func TestHTTPArchives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	names := []string{"kernel", "sub/deep/initrd", "sub/" + strings.Repeat("long", 40) + "/" + strings.Repeat("name", 40), "ü b&c", "empty"}
	for i, name := range names {
		file := filepath.Join(dir, "lab", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content(webSizes[len(webSizes)-1-i]), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "lab", ".hidden"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	url, _ := serveWeb(t, dir, "--http", "127.0.0.1:0", "--listing")
	curl, busybox, python := find(t, "curl", "curl"), find(t, "busybox", "busybox"), find(t, "python3", "python3")
	for _, c := range []struct {
		kind   string
		unpack func(archive string)
	}{
		{"tar", func(a string) { do(t, program{path: "/bin/tar"}, "-x", "-p", "-f", a, "-C", filepath.Dir(a)) }},
		{"tar", func(a string) { do(t, busybox, "tar", "-x", "-f", a, "-C", filepath.Dir(a)) }},
		{"zip", func(a string) {
			do(t, python, "-c", "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; z.extractall(sys.argv[2])", a, filepath.Dir(a))
		}},
		{"zip", func(a string) { do(t, busybox, "unzip", "-q", a, "-d", filepath.Dir(a)) }},
		{"zip", func(a string) {
			do(t, program{path: "/bin/sh"}, "-c", `"$0" unzip -q - -d "$2" <"$1"`, busybox.path, a, filepath.Dir(a))
		}},
	} {
		here := t.TempDir()
		archive := filepath.Join(here, "archive")
		do(t, curl, "--silent", "--fail", "--output", archive, url+"/lab/?archive="+c.kind)
		c.unpack(archive)
		for i, name := range names {
			if webSizes[len(webSizes)-1-i] > 0 {
				wantFile(t, filepath.Join(here, "lab", name), content(webSizes[len(webSizes)-1-i]))
			} else if _, err := os.Stat(filepath.Join(here, "lab", name)); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Stat(filepath.Join(here, "lab", ".hidden")); err == nil {
			t.Error("a hidden file is in the archive")
		}
	}
}
