package certs

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// ownFile is the name of the file with the key and the certificate.
const ownFile = "https.pem"

// maxHosts is how many names and addresses of a machine such a certificate is for.
const maxHosts = 64

// OwnFile returns the file in which a directory keeps a server's own certificate.
func OwnFile(dir string) string { return filepath.Join(dir, ownFile) }

// Own returns the self-signed certificate that a server keeps for itself in a directory,
// one file with the key, which only its owner can read. If there is none yet, or if it
// expires within 30 days, Own makes it for the hosts: created reports that, since clients
// that trust an earlier one have to trust the new one. It is there whole or not at all,
// even if another server makes one at the same time.
func Own(dir string, hosts ...string) (cert *tls.Certificate, created bool, err error) {
	return own(dir, time.Now(), hosts)
}

func own(dir string, now time.Time, hosts []string) (cert *tls.Certificate, created bool, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, false, fmt.Errorf("make the directory of the certificate: %w", err)
	}
	file := OwnFile(dir)
	cert, err = loadOwn(file, now)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case err == nil && now.Add(expiresSoon).Before(cert.Leaf.NotAfter):
		return cert, false, nil
	case err != nil && !missing:
		return nil, false, err
	}
	made, err := selfSigned(now, hosts)
	if err != nil {
		return nil, false, fmt.Errorf("make certificate %s: %w", file, err)
	}
	if err := writeOwn(file, made, missing); err != nil {
		return nil, false, fmt.Errorf("make certificate %s: %w", file, err)
	}
	cert, err = loadOwn(file, now) // perhaps that of another server
	return cert, err == nil && cert.Leaf.Equal(made.Leaf), err
}

func loadOwn(file string, now time.Time) (*tls.Certificate, error) {
	files, err := readPair(Pair{Cert: file, Key: file}, now)
	defer files.forget()
	if err != nil {
		return nil, err
	}
	if perm := files.key.info.Mode().Perm(); perm&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("certificate %s: other users of this machine may read or change its key (permissions %04o); remove the file, and a new one is made", file, perm)
	}
	cert, err := files.parse()
	if err != nil {
		return nil, fmt.Errorf("certificate: %w; remove %s, and a new one is made", err, file)
	}
	return cert, nil
}

// writeOwn writes a certificate and its key. If the file is not there, one that has come up
// meanwhile stays.
func writeOwn(file string, cert tls.Certificate, missing bool) error {
	temp, err := os.MkdirTemp(filepath.Dir(file), "."+ownFile+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }() // a file that remains is a key that is not used
	whole := OwnFile(temp)
	if err := (Pair{Cert: whole, Key: whole}).Create(cert); err != nil {
		return err
	}
	if missing {
		// A link never replaces a file, as a rename would.
		if err := os.Link(whole, file); err == nil || errors.Is(err, fs.ErrExist) {
			return nil
		}
	}
	return os.Rename(whole, file)
}

// Fingerprint returns the SHA-256 of a certificate in hexadecimal, as browsers show it.
func Fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}

// HostsOf returns the names and addresses of this machine under which clients reach a
// server that listens on some addresses, HOST:PORT or :PORT: up to 64.
func HostsOf(listen ...string) []string {
	hosts := []string{"localhost"}
	if name, err := os.Hostname(); err == nil && isHostName(name) {
		hosts = []string{name, "localhost"}
	}
	for _, addr := range listen {
		host, _, err := net.SplitHostPort(addr)
		ip, notIP := netip.ParseAddr(host)
		switch {
		case err != nil:
		case host == "" || notIP == nil && ip.IsUnspecified():
			hosts = append(hosts, interfaceAddrs()...)
		case notIP == nil || isHostName(host):
			hosts = append(hosts, host)
		}
	}
	var all []string
	for _, host := range hosts {
		if len(all) < maxHosts && !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	return all
}

// isHostName reports whether a certificate can have a name.
func isHostName(name string) bool {
	return name != "" && len(name) <= 253 && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789.-_") == "" && !strings.Contains(name, "..")
}

func interfaceAddrs() (hosts []string) {
	addrs, _ := net.InterfaceAddrs() // none are as good as unknown ones
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			hosts = append(hosts, n.IP.String())
		}
	}
	return hosts
}
