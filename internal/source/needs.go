package source

import (
	"crypto/x509"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/haul-project/haul/internal/openssh"
	"github.com/haul-project/haul/store/s3"
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
	for _, list := range []*[]string{&n.Read, &n.Sockets, &n.Secrets} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	slices.Sort(n.Ports)
	n.Ports = slices.Compact(n.Ports)
}

const dnsPort = 53 // by TCP, for answers that do not fit into a datagram

// names are the files that looking up the names of hosts takes.
var names = []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"}

// addNames adds what it takes to look up names of hosts, and to check certificates: those of
// the system are read here, once.
func (n *Needs) addNames() {
	_, _ = x509.SystemCertPool() // without any, connections fail by name
	more := Needs{Ports: []uint16{dnsPort}}
	for _, name := range names {
		more.Read = append(more.Read, readable(name)...)
	}
	n.Add(more)
}

// addLogin adds what it takes to reach a server of SFTP or HTTP, and to log in.
func (n *Needs) addLogin(login openssh.Needs) {
	n.addNames()
	var more Needs
	for _, port := range login.Ports {
		more.Ports = append(more.Ports, uint16(port))
	}
	for _, name := range login.Files {
		more.Read = append(more.Read, readable(name)...)
		more.Secrets = append(more.Secrets, existing(name)...)
	}
	for _, name := range login.Sockets {
		more.Sockets = append(more.Sockets, existing(name)...)
	}
	n.Add(more)
}

// Where the services are that give the keys of a cloud: over plain HTTP, at an address of
// the machine's own link.
const (
	httpPort  = 80
	httpsPort = 443
)

// addS3 adds what it takes to reach an object store, and to have its keys.
func (n *Needs) addS3() {
	n.addNames()
	more := Needs{Ports: []uint16{httpPort, httpsPort}}
	for _, name := range s3.CredentialFiles() {
		more.Read = append(more.Read, readable(name)...)
		more.Secrets = append(more.Secrets, existing(name)...)
	}
	for _, variable := range []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		if u, err := url.Parse(os.Getenv(variable)); err == nil && u.Host != "" {
			more.Ports = append(more.Ports, portOf(u))
		}
	}
	n.Add(more)
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
// a service below /run.
func isOwn(dir string) bool {
	parent, base := filepath.Split(dir)
	switch {
	case base == ".ssh", base == ".aws":
		return true
	}
	return strings.HasPrefix(parent, "/run/")
}

// portOf returns the port of a URL.
func portOf(u *url.URL) uint16 {
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(n)
	}
	if u.Scheme == "http" {
		return httpPort
	}
	return httpsPort
}
