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

	"github.com/haul-project/haul/internal/filelock"
	"github.com/haul-project/haul/internal/ownfile"
)

// These are the names of the files in the directory of a server's own certificate.
const (
	ownFile = "https.pem"       // the key and the certificate
	ownNew  = ".https.pem.new"  // the new file while a server writes it; stays behind if that server is killed
	ownLock = ".https.pem.lock" // locked by the server that makes the certificate
)

const (
	maxHosts     = 64               // the largest number of names and addresses that HostsOf returns
	lockPatience = 10 * time.Second // how long to wait for another server that makes a certificate
	lockEvery    = 10 * time.Millisecond
)

// OwnFile returns the path of a server's own certificate in a directory.
func OwnFile(dir string) string { return filepath.Join(dir, ownFile) }

// Own returns the self-signed certificate that a server keeps for itself in a directory, in one
// file with its key, which only the owner can read. If the directory has no certificate yet, or the
// certificate expires within 30 days, Own makes one for the hosts, and sets created, because
// clients that trust an earlier certificate have to trust the new one. Servers that need a
// certificate at the same time get the same one, and wait up to 10 s for the server that makes it.
// The file is complete or absent. If a process is killed while it makes the certificate, the next
// server replaces what that process left behind. The file and its lock must belong to this process's
// user, to root or to one of the owners.
func Own(dir string, owners []int, hosts ...string) (cert *tls.Certificate, created bool, err error) {
	return own(dir, time.Now(), owners, hosts)
}

func own(dir string, now time.Time, owners []int, hosts []string) (cert *tls.Certificate, created bool, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, false, fmt.Errorf("make the directory of the certificate: %w", err)
	}
	file := OwnFile(dir)
	if cert, err = loadOwn(file, now, owners); cert != nil || err != nil {
		return cert, false, err
	}
	unlock, err := lockOwn(filepath.Join(dir, ownLock), owners)
	if err != nil {
		return nil, false, fmt.Errorf("make certificate %s: %w", file, err)
	}
	defer unlock()
	// Another server may have made it meanwhile.
	if cert, err = loadOwn(file, now, owners); cert != nil || err != nil {
		return cert, false, err
	}
	made, err := selfSigned(now, hosts)
	if err == nil {
		err = writeOwn(file, filepath.Join(dir, ownNew), made)
	}
	if err != nil {
		return nil, false, fmt.Errorf("make certificate %s: %w", file, err)
	}
	return &made, true, nil
}

// loadOwn loads the certificate. It returns nil without an error if a new one has to be made.
func loadOwn(file string, now time.Time, owners []int) (*tls.Certificate, error) {
	files, err := readPair(Pair{Cert: file, Key: file}, now)
	defer files.forget()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var cert *tls.Certificate
	if err == nil {
		err = ownfile.Check(file, owners...) // a link of another user could lead to another server's key
	}
	if err == nil {
		err = ownerOnly(files.key.info, owners)
	}
	if err == nil {
		cert, err = files.parse()
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("load certificate %s: %w; remove the file, and the next start makes a new one", file, err)
	case !now.Add(expiresSoon).Before(cert.Leaf.NotAfter):
		return nil, nil
	}
	return cert, nil
}

func ownerOnly(info fs.FileInfo, owners []int) error {
	if !ownfile.Ours(info, owners...) {
		return errors.New("another user owns it, and knows its key")
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("other users of this machine may read or change its key (permissions %04o)", perm)
	}
	return nil
}

// lockOwn locks path, so that no other process makes a certificate at the same time. It waits up to
// lockPatience. unlock releases the lock.
func lockOwn(path string, owners []int) (unlock func(), err error) {
	f, err := ownfile.Open(path, os.O_RDWR|os.O_CREATE, 0o600, owners...)
	if err != nil {
		return nil, err
	}
	for late := time.Now().Add(lockPatience); ; time.Sleep(lockEvery) {
		locked, err := filelock.Try(f)
		switch {
		case locked:
			return func() { _ = f.Close() }, nil
		case err != nil:
			err = fmt.Errorf("lock %s against other servers: %w", path, err)
		case time.Now().After(late):
			err = fmt.Errorf("another process has made one for %v, and holds %s: end it, and start again", lockPatience, path)
		default:
			continue
		}
		_ = f.Close()
		return nil, err
	}
}

// writeOwn writes a certificate and its key. The caller holds the lock.
func writeOwn(file, temp string, cert tls.Certificate) error {
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a process that was killed
		return err
	}
	if err := (Pair{Cert: temp, Key: temp}).Create(cert); err != nil {
		return err
	}
	if err := os.Rename(temp, file); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// Fingerprint returns the SHA-256 of a certificate in hexadecimal, as browsers show it.
func Fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}

// HostsOf returns the names and addresses of this machine, up to 64, under which clients reach a
// server that listens on the given addresses (HOST:PORT or :PORT).
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

// isHostName reports whether name may appear in a certificate as a host name.
func isHostName(name string) bool {
	return name != "" && len(name) <= 253 && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789.-_") == "" && !strings.Contains(name, "..")
}

func interfaceAddrs() (hosts []string) {
	addrs, _ := net.InterfaceAddrs() // if this fails, the certificate has no addresses of interfaces
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			hosts = append(hosts, n.IP.String())
		}
	}
	return hosts
}
