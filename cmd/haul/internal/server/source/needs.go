package source

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/client/openssh"
)

// Needs are what sources take from the system once a process is confined: what they read
// again whenever they connect, and where to.
type Needs struct {
	Read    []string // directories and files that are there
	Sockets []string // unix sockets that are there
	Ports   []uint16 // TCP ports of other machines
	Secrets []string // files of Read, or in it, that hold keys and passwords
}

// Add adds the needs of another source.
func (n *Needs) Add(more Needs) {
	n.Read = append(n.Read, more.Read...)
	n.Sockets = append(n.Sockets, more.Sockets...)
	n.Ports = append(n.Ports, more.Ports...)
	n.Secrets = append(n.Secrets, more.Secrets...)
}

const dnsPort = 53 // by TCP, for answers that do not fit into a datagram

// names are the files that looking up the names of hosts takes.
var names = []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"}

// needsOf returns what it takes to reach a server, and to log in. The certificates of the
// system are read here, once.
func needsOf(login openssh.Needs) (n Needs) {
	_, _ = x509.SystemCertPool() // without any, connections fail by name
	n.Ports = []uint16{dnsPort}
	for _, port := range login.Ports {
		n.Ports = append(n.Ports, uint16(port))
	}
	for _, name := range names {
		n.Read = append(n.Read, readable(name)...)
	}
	for _, name := range login.Files {
		n.Read = append(n.Read, readable(name)...)
		n.Secrets = append(n.Secrets, existing(name)...)
	}
	for _, name := range login.Sockets {
		n.Sockets = append(n.Sockets, existing(name)...)
	}
	return n
}

// existing returns a path if something has it.
func existing(name string) []string {
	if _, err := os.Stat(name); err != nil {
		return nil
	}
	return []string{name}
}

// readable returns what has to be readable so that a file can be read again when it
// has been replaced: its directory, if that is for such files, as ~/.ssh is, or else the
// file alone, which then can only be written anew where it is.
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

// isOwn reports whether a directory has such files alone: one of ssh or of AWS, or one of
// a service below /run. Kubernetes keeps tokens below /var/run, in a directory that is another
// whenever they are renewed.
func isOwn(dir string) bool {
	parent, base := filepath.Split(dir)
	return base == ".ssh" || base == ".aws" || strings.HasPrefix(parent, "/run/") || strings.HasPrefix(parent, "/var/run/")
}
