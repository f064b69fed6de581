package openssh

import "slices"

// Needs lists the system resources that [Dialer.Dial] uses. A process that gives up all other
// rights needs this list.
type Needs struct {
	// Files lists the files that are read for each connection: keys, certificates and lists of host
	// keys. They need not exist.
	Files   []string
	Sockets []string // sockets of agents to connect to
	Ports   []int    // TCP ports to connect to; with jump hosts, only the port of the first one

	// Commands are the ProxyCommands of all hosts on the way.
	Commands []string
}

// Needs returns the system resources that a connection to the destination requires.
func (d *Destination) Needs() (n Needs) {
	for at := d; at != nil; at = at.Jump {
		for _, key := range at.IdentityFiles {
			n.Files = append(n.Files, key, key+".pub", key+"-cert.pub")
		}
		n.Files = slices.Concat(n.Files, at.CertificateFiles, at.knownHostsFiles())
		if at.RevokedHostKeys != "" {
			n.Files = append(n.Files, at.RevokedHostKeys)
		}
		if at.IdentityAgent != "" {
			n.Sockets = append(n.Sockets, at.IdentityAgent)
		}
		switch {
		case at.ProxyCommand != "":
			n.Commands = append(n.Commands, at.ProxyCommand)
		case at.Jump == nil && at.Port == 0:
			n.Ports = append(n.Ports, defaultPort)
		case at.Jump == nil:
			n.Ports = append(n.Ports, at.Port)
		}
	}
	return n
}
