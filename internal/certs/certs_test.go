package certs

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A certClock is a clock that a test controls. With it, every handshake checks the files.
type certClock struct {
	mu  sync.Mutex
	off time.Duration
}

func (k *certClock) add(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.off += d
}

// looking makes c use the clock, and check the files at every handshake.
func (k *certClock) looking(c *Set) {
	c.now = func() time.Time {
		c.next.Store(0)
		k.mu.Lock()
		defer k.mu.Unlock()
		return time.Now().Add(k.off)
	}
}

func testCert(t *testing.T, hosts ...string) tls.Certificate {
	t.Helper()
	cert, err := SelfSigned(hosts...)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// pairIn returns the names of a pair of files in a directory.
func pairIn(dir, name string) Pair {
	return Pair{filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")}
}

func createPair(t *testing.T, p Pair, cert tls.Certificate) {
	t.Helper()
	if err := p.Create(cert); err != nil {
		t.Fatal(err)
	}
}

// replaceFile replaces a file, by a rename or by writing into it.
func replaceFile(t *testing.T, from, to string, rename bool) {
	t.Helper()
	b, err := os.ReadFile(from)
	at := to
	if rename {
		at += ".new"
	}
	if err == nil {
		err = os.WriteFile(at, b, 0o600)
	}
	if err == nil && rename {
		err = os.Rename(at, to)
	}
	if err != nil {
		t.Error(err)
	}
}

func loadCerts(t *testing.T, pairs ...Pair) *Set {
	t.Helper()
	c, err := Load(pairs...)
	if err != nil {
		t.Fatal(err)
	}
	new(certClock).looking(c)
	return c
}

// shakeHands does a handshake, and returns the certificate that the client receives. config is the
// client's, and may be nil.
func shakeHands(t *testing.T, c *Set, name string, config *tls.Config) (*x509.Certificate, error) {
	if config == nil {
		config = &tls.Config{}
	}
	config = config.Clone()
	config.ServerName = name
	config.InsecureSkipVerify = true // the test checks the identity itself
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	served := make(chan error, 1)
	go func() {
		served <- tls.Server(far, &tls.Config{GetCertificate: c.GetCertificate, SessionTicketsDisabled: true}).HandshakeContext(t.Context())
	}()
	client := tls.Client(near, config)
	if err := client.HandshakeContext(t.Context()); err != nil {
		return nil, err
	}
	if err := <-served; err != nil {
		return nil, fmt.Errorf("the server says: %w", err)
	}
	return client.ConnectionState().PeerCertificates[0], nil
}

func shown(t *testing.T, c *Set, name string, config *tls.Config) *x509.Certificate {
	t.Helper()
	cert, err := shakeHands(t, c, name, config)
	if err != nil {
		t.Fatalf("handshake for %q: %v", name, err)
	}
	return cert
}

func wantShown(t *testing.T, c *Set, name string, want tls.Certificate) {
	t.Helper()
	if got := shown(t, c, name, nil); !bytes.Equal(got.Raw, want.Certificate[0]) {
		t.Errorf("for %q %v is shown, want %v", name, got.DNSNames, want.Leaf.DNSNames)
	}
}

func TestSetByName(t *testing.T) {
	dir := t.TempDir()
	one := testCert(t, "first.example.org", "192.0.2.1")
	wild := testCert(t, "*.example.org", "example.org")
	exact := testCert(t, "WWW.example.org")
	var pairs []Pair
	for i, cert := range []tls.Certificate{one, wild, exact} {
		pairs = append(pairs, pairIn(dir, fmt.Sprint(i)))
		createPair(t, pairs[i], cert)
	}
	c := loadCerts(t, pairs...)
	for _, tt := range []struct {
		name string
		want tls.Certificate
	}{
		{"first.example.org", one},
		{"FIRST.Example.org", one},
		{"", one},
		{"other.example.net", one},
		{"localhost", one},
		{"example.org", wild},
		{"a.example.org", wild},
		{"a.b.example.org", one}, // a wildcard stands for one label
		{"www.example.org", exact},
	} {
		wantShown(t, c, tt.name, tt.want)
	}
	for _, name := range []string{"*", ".", "..", "*.example.org", ".example.org", strings.Repeat("a.", 200)} {
		if len(c.current.Load().forName(name)) == 0 {
			t.Errorf("none for %q", name)
		}
	}
}

// rsaCert returns a certificate with an RSA key, unlike testCert.
func rsaCert(t *testing.T, host string) tls.Certificate {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// A client that only supports RSA gets RSA, and others get the first certificate.
func TestSetByKind(t *testing.T) {
	dir := t.TempDir()
	curve, old := pairIn(dir, "ecdsa"), pairIn(dir, "rsa")
	createPair(t, curve, testCert(t, "example.org"))
	createPair(t, old, rsaCert(t, "example.org"))
	c := loadCerts(t, curve, old)
	for _, name := range []string{"example.org", ""} {
		if _, ok := shown(t, c, name, nil).PublicKey.(*ecdsa.PublicKey); !ok {
			t.Errorf("for %q ECDSA is not shown", name)
		}
		only := &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}}
		if _, ok := shown(t, c, name, only).PublicKey.(*rsa.PublicKey); !ok {
			t.Errorf("for %q RSA is not shown to a client that has nothing else", name)
		}
	}
}

// While only one of the two files has been replaced, clients receive the old certificate, and nothing
// is reported.
func TestSetReplaced(t *testing.T) {
	for _, rename := range []bool{false, true} {
		t.Run(fmt.Sprintf("rename %v", rename), func(t *testing.T) {
			dir := t.TempDir()
			was, is := testCert(t, "old.example.org"), testCert(t, "new.example.org")
			p, q := pairIn(dir, "served"), pairIn(dir, "next")
			createPair(t, p, was)
			createPair(t, q, is)
			c := loadCerts(t, p)
			var said []error
			c.Report = func(err error) { said = append(said, err) }
			var taken []string
			c.Taken = func(cert *x509.Certificate) { taken = append(taken, cert.DNSNames...) }
			wantShown(t, c, "", was)
			replaceFile(t, q.Cert, p.Cert, rename)
			wantShown(t, c, "", was)
			if len(said) > 0 {
				t.Errorf("said %v after one look", said)
			}
			replaceFile(t, q.Key, p.Key, rename)
			wantShown(t, c, "", is)
			if len(said) > 0 || c.Warnings() != nil {
				t.Errorf("said %v, warns %v", said, c.Warnings())
			}
			wantShown(t, c, "", is)
			if !slices.Equal(taken, is.Leaf.DNSNames) {
				t.Errorf("new certificates for %q were reported, want %q once", taken, is.Leaf.DNSNames)
			}
		})
	}
}

// A pair that stays broken is reported once.
func TestSetBroken(t *testing.T) {
	dir := t.TempDir()
	was, other := testCert(t, "example.org"), testCert(t, "example.org")
	p, q := pairIn(dir, "served"), pairIn(dir, "other")
	createPair(t, q, other)
	certText, err := os.ReadFile(q.Cert)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T)
		says  string
	}{
		{"another's certificate", func(t *testing.T) { replaceFile(t, q.Cert, p.Cert, true) }, "private key does not match"},
		{"cut off", func(t *testing.T) { writeText(t, p.Cert, certText[:len(certText)/2]) }, "cut off"},
		{"a second that is cut off", func(t *testing.T) { writeText(t, p.Cert, append(bytes.Clone(certText), certText[:100]...)) }, "of 2 parts that begin, 1 are whole"},
		{"empty", func(t *testing.T) { writeText(t, p.Key, nil) }, "nothing in it is PEM"},
		{"in DER", func(t *testing.T) { writeText(t, p.Cert, was.Certificate[0]) }, "nothing in it is PEM"},
		{"a key for a certificate", func(t *testing.T) { replaceFile(t, p.Key, p.Cert, true) }, "may have been switched"},
		{"encrypted", func(t *testing.T) {
			writeText(t, p.Key, []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"))
		}, "openssl pkey -in"},
		{"encrypted, as it used to be", func(t *testing.T) {
			writeText(t, p.Key, []byte("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"))
		}, "passphrase"},
		{"gone", func(t *testing.T) { os.Remove(p.Key) }, p.Key},
		{"a directory", func(t *testing.T) {
			os.Remove(p.Cert)
			if err := os.Mkdir(p.Cert, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file"},
		{"long", func(t *testing.T) { writeText(t, p.Cert, make([]byte, maxCertFile+1)) }, "more than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			os.RemoveAll(p.Cert)
			os.RemoveAll(p.Key)
			createPair(t, p, was)
			c := loadCerts(t, p)
			var said []error
			c.Report = func(err error) { said = append(said, err) }
			tt.spoil(t)
			for range 4 {
				wantShown(t, c, "", was)
			}
			if len(said) != 1 || !strings.Contains(said[0].Error(), tt.says) || !strings.Contains(said[0].Error(), "stays in force") {
				t.Errorf("said %v; want one error with %q", said, tt.says)
			}
			if all := c.Warnings(); len(all) == 0 || !strings.Contains(all[0].Error(), tt.says) {
				t.Errorf("warns %v; want %q", all, tt.says)
			}
			if err := c.Reload(); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Reload: %v; want %q", err, tt.says)
			}
			if _, err := Load(p); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Load: %v; want %q", err, tt.says)
			}
			os.RemoveAll(p.Cert)
			os.RemoveAll(p.Key)
			createPair(t, p, other)
			wantShown(t, c, "", other)
			if len(said) != 1 || c.Warnings() != nil {
				t.Errorf("said %v, warns %v, and all is well again", said, c.Warnings())
			}
		})
	}
}

func writeText(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// While files are replaced again and again, every handshake gets a certificate with the right key.
// After the last change, handshakes get the last certificate.
func TestSetUnderLoad(t *testing.T) {
	dir := t.TempDir()
	var next [2]Pair
	var certs [2]tls.Certificate
	for i := range next {
		next[i], certs[i] = pairIn(dir, fmt.Sprint(i)), testCert(t, "example.org")
		createPair(t, next[i], certs[i])
	}
	p := pairIn(dir, "served")
	createPair(t, p, certs[0])
	c := loadCerts(t, p)
	// This is not an error: two checks may find the same file without its counterpart.
	c.Report = func(err error) { t.Logf("report: %v", err) }

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var replaced sync.WaitGroup
	replaced.Go(func() {
		for i := 1; ctx.Err() == nil; i++ {
			from := next[i%2]
			replaceFile(t, from.Cert, p.Cert, i%3 == 0)
			replaceFile(t, from.Key, p.Key, i%5 == 0)
		}
	})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range 50 {
				got, err := shakeHands(t, c, "example.org", nil)
				if err != nil {
					t.Error(err)
				} else if !bytes.Equal(got.Raw, certs[0].Certificate[0]) && !bytes.Equal(got.Raw, certs[1].Certificate[0]) {
					t.Error("an unknown certificate is shown")
				}
			}
		})
	}
	clients.Wait()
	stop()
	replaced.Wait()
	for i, from := range []Pair{next[0], next[1]} {
		replaceFile(t, from.Cert, p.Cert, false)
		replaceFile(t, from.Key, p.Key, false)
		// The modification times may be the same as before. But files that changed just before they
		// were read are read again.
		wantShown(t, c, "example.org", certs[i])
	}
}

// Handshakes check the files at most once a second.
func TestSetOnceASecond(t *testing.T) {
	dir := t.TempDir()
	was, is := testCert(t, "example.org"), testCert(t, "example.org")
	p, q := pairIn(dir, "served"), pairIn(dir, "next")
	createPair(t, p, was)
	createPair(t, q, is)
	c, err := Load(p)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(time.Hour) // the first handshake checks the files, and the next check is a second later
	c.now = func() time.Time { return now }
	wantShown(t, c, "", was)
	replaceFile(t, q.Cert, p.Cert, true)
	replaceFile(t, q.Key, p.Key, true)
	now = now.Add(checkEvery - 1)
	wantShown(t, c, "", was)
	now = now.Add(1)
	wantShown(t, c, "", is)

	// If the clock is set back by an hour, the next handshake checks the files, and not only after an
	// hour.
	os.Remove(p.Cert)
	os.Remove(p.Key)
	createPair(t, p, was)
	// This is needed because the new files may have the inode numbers of the previous ones.
	before := time.Now().Add(-time.Minute)
	for _, path := range []string{p.Cert, p.Key} {
		if err := os.Chtimes(path, before, before); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(-time.Hour)
	wantShown(t, c, "", was)

	// Reload checks the files at once.
	replaceFile(t, q.Cert, p.Cert, true)
	replaceFile(t, q.Key, p.Key, true)
	if err := c.Reload(); err != nil {
		t.Error(err)
	}
	wantShown(t, c, "", is)
}

func TestSetExpire(t *testing.T) {
	dir := t.TempDir()
	p := pairIn(dir, "served")
	cert := testCert(t, "example.org")
	createPair(t, p, cert)
	c := loadCerts(t, p)
	var clock certClock
	clock.looking(c)
	var said []error
	c.Report = func(err error) { said = append(said, err) }
	if got := c.Expires(); !got.Equal(cert.Leaf.NotAfter) {
		t.Errorf("expires %v, want %v", got, cert.Leaf.NotAfter)
	}
	wantShown(t, c, "", cert)
	if len(said) > 0 || c.Warnings() != nil {
		t.Fatalf("a new one: said %v, warns %v", said, c.Warnings())
	}
	clock.add(time.Until(cert.Leaf.NotAfter) - expiresSoon + time.Hour)
	for range 3 {
		wantShown(t, c, "", cert)
	}
	if len(said) != 1 || !strings.Contains(said[0].Error(), "expires at") || !strings.Contains(said[0].Error(), "in 29 days") {
		t.Errorf("soon: said %v", said)
	}
	clock.add(expiresSoon)
	for range 3 {
		wantShown(t, c, "", cert)
	}
	if len(said) != 2 || !strings.Contains(said[1].Error(), "expired at") {
		t.Errorf("late: said %v", said)
	}
	if all := c.Warnings(); len(all) != 1 || !strings.Contains(all[0].Error(), "expired at") {
		t.Errorf("late: warns %v", all)
	}
	clock.add(-2 * selfSignedFor)
	if all := c.Warnings(); len(all) != 1 || !strings.Contains(all[0].Error(), "is the clock right?") {
		t.Errorf("early: warns %v", all)
	}
}

func TestSetOpenKey(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no such permissions")
	}
	p := pairIn(t.TempDir(), "served")
	createPair(t, p, testCert(t, "example.org"))
	c := loadCerts(t, p)
	for _, tt := range []struct {
		perm fs.FileMode
		warn bool
	}{{0o600, false}, {0o640, false}, {0o644, true}, {0o400, false}} {
		if err := os.Chmod(p.Key, tt.perm); err != nil {
			t.Fatal(err)
		}
		if err := c.Reload(); err != nil {
			t.Fatal(err)
		}
		all := c.Warnings()
		if warned := len(all) == 1 && strings.Contains(all[0].Error(), "chmod o-rwx"); warned != tt.warn || len(all) > 1 {
			t.Errorf("%v: warns %v", tt.perm, all)
		}
	}
}

// The certificate and its key may be in the same file, as with HAProxy.
func TestSetOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "both.pem")
	p := Pair{path, path}
	cert := testCert(t, "example.org")
	createPair(t, p, cert)
	c := loadCerts(t, p)
	wantShown(t, c, "", cert)
	os.Remove(path)
	if err := c.Reload(); !errors.Is(err, fs.ErrNotExist) || strings.Count(err.Error(), "no such file") > 1 {
		t.Errorf("gone: %v", err)
	}
}

func TestLoadErrors(t *testing.T) {
	good := pairIn(t.TempDir(), "good")
	createPair(t, good, testCert(t, "example.org"))
	missing := Pair{"missing.pem", "missing.key"}
	for _, tt := range []struct {
		name  string
		pairs []Pair
		says  string
	}{
		{"none", nil, "no certificate"},
		{"too many", make([]Pair, maxPairs+1), "more than the limit of 1000"},
		{"the second", []Pair{good, missing}, "missing.pem"},
		{"the first", []Pair{missing, good}, "missing.key"},
	} {
		if c, err := Load(tt.pairs...); err == nil || c != nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.says)
		}
	}
}

func TestSelfSigned(t *testing.T) {
	cert := testCert(t, "boot.example.org", "*.lab.example.org", "192.0.2.1", "2001:db8::1", "fe80::1%eth0")
	roots := x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	for _, host := range []string{"boot.example.org", "a.lab.example.org", "192.0.2.1", "2001:db8::1", "[fe80::1]"} {
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "other.example.org"}); err == nil {
		t.Error("it holds for another host")
	}
	if again := testCert(t, "boot.example.org"); again.Leaf.SerialNumber.Cmp(cert.Leaf.SerialNumber) == 0 {
		t.Error("a serial number is used again")
	}
	if long := testCert(t, strings.Repeat("a", 60)+".example.org"); long.Leaf.Subject.CommonName != "" {
		t.Error("a common name is too long")
	}
	if _, err := SelfSigned(); err == nil {
		t.Error("for no host at all")
	}
}

// Create does not overwrite a file, and does not leave a partial file behind.
func TestPairCreate(t *testing.T) {
	dir := t.TempDir()
	cert := testCert(t, "example.org")
	p := pairIn(dir, "a")
	createPair(t, p, cert)
	if err := p.Create(cert); !errors.Is(err, fs.ErrExist) {
		t.Errorf("again: %v", err)
	}
	info, err := os.Stat(p.Key)
	if err != nil {
		t.Fatal(err)
	}
	if perm := info.Mode().Perm(); perm != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("the key has permissions %v", perm)
	}
	taken := Pair{p.Cert, filepath.Join(dir, "b.key")}
	if err := taken.Create(cert); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the certificate is there: %v", err)
	}
	if _, err := os.Stat(taken.Key); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a key is left alone: %v", err)
	}
	if _, err := Load(p); err != nil {
		t.Error(err)
	}
}

// GetCertificate does not allocate memory if the files have not changed.
func TestGetCertificateAllocs(t *testing.T) {
	p := pairIn(t.TempDir(), "served")
	createPair(t, p, testCert(t, "*.example.org"))
	c, err := Load(p)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	c.now = func() time.Time { return now }
	hello := &tls.ClientHelloInfo{ServerName: "boot.example.org"}
	got := testing.AllocsPerRun(100, func() {
		if _, err := c.GetCertificate(hello); err != nil {
			t.Error(err)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations", got)
	}
}
