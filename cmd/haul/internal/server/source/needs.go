package source

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/client/openssh"
)

// Needs lists the system resources that a confined process needs for upstreams: the files that it
// reads each time it connects, and the ports that it connects to.
type Needs struct {
	Read    []string // existing directories and files to read
	Sockets []string // existing unix sockets to connect to
	Ports   []uint16 // TCP ports of other machines to connect to
	Secrets []string // files with keys and passwords; some may not exist
}

// Add adds the needs of another source.
func (n *Needs) Add(more Needs) {
	n.Read = append(n.Read, more.Read...)
	n.Sockets = append(n.Sockets, more.Sockets...)
	n.Ports = append(n.Ports, more.Ports...)
	n.Secrets = append(n.Secrets, more.Secrets...)
}

const dnsPort = 53 // needed over TCP too, for DNS answers that do not fit into a datagram

// names lists the files that are needed to look up host names.
var names = []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"}

// needsOf returns the resources needed to reach a server and to log in. It makes the process load
// the system's certificates now, because it cannot do that after the confinement.
func needsOf(login openssh.Needs) (n Needs) {
	_, _ = x509.SystemCertPool() // ignore the error: without system certificates, connections fail and say why
	n.Ports = []uint16{dnsPort}
	for _, port := range login.Ports {
		n.Ports = append(n.Ports, uint16(port))
	}
	for _, name := range names {
		n.Read = append(n.Read, readable(name)...)
	}
	for _, name := range login.Files {
		n.Read = append(n.Read, readable(name)...)
		n.Secrets = append(n.Secrets, name) // even if it is missing: a client could create it
	}
	for _, name := range login.Sockets {
		n.Sockets = append(n.Sockets, existing(name)...)
	}
	return n
}

// existing returns a list with the path, or nil if the path does not exist.
func existing(name string) []string {
	if _, err := os.Stat(name); err != nil {
		return nil
	}
	return []string{name}
}

// readable returns the path that a confined process must be able to read, so that it can read the
// file again after the file was replaced. If the file's directory is meant for such files, as ~/.ssh
// is, readable returns the directory. Otherwise it returns only the file. Such a file must be
// rewritten in place, and not replaced.
func readable(name string) []string {
	absolute, err := filepath.Abs(name)
	if err != nil {
		return nil
	}
	paths := []string{absolute}
	if real, err := filepath.EvalSymlinks(absolute); err == nil {
		paths = append(paths, real)
	}
	var all []string
	for _, path := range paths {
		dir := filepath.Dir(path)
		switch _, err := os.Stat(dir); {
		case err != nil:
		case isOwn(dir):
			all = append(all, dir)
		default:
			all = append(all, existing(path)...)
		}
	}
	return all
}

// isOwn reports whether a directory belongs to one program: to ssh, to AWS tools, or to a service
// below /run or /var/run. Kubernetes keeps tokens below /var/run, in a directory that it replaces
// each time it renews them.
func isOwn(dir string) bool {
	parent, base := filepath.Split(dir)
	return base == ".ssh" || base == ".aws" || strings.HasPrefix(parent, "/run/") || strings.HasPrefix(parent, "/var/run/")
}
