package openssh

import (
	"fmt"
	"net"
	"os/user"
	"slices"
	"strconv"
	"time"
)

// A Policy says what becomes of a host key that is not known.
type Policy int

// The values of StrictHostKeyChecking.
const (
	Ask       Policy = iota // the Prompter decides
	Strict                  // it is refused
	AcceptNew               // it is kept, if the host has none yet
	Accept                  // it is kept, and other keys are no reason to stop
)

// A Destination is all that is known of a host and how to log in to it. The
// zero value of every field but Host is fit for use, and strict. A setting of
// ssh_config(5) has the same meaning here, paths and tokens expanded.
type Destination struct {
	Alias string // as the user typed it
	User  string
	Host  string // HostName: what to connect to
	Port  int    // 0 means 22

	Jump         *Destination // connect through this host; nil to do it directly
	ProxyCommand string       // connect through this command; empty for none

	Policy                  Policy // StrictHostKeyChecking
	HostKeyAlias            string
	UserKnownHostsFiles     []string // the first gets new keys
	GlobalKnownHostsFiles   []string
	RevokedHostKeys         string // a file of keys; empty for none
	HashKnownHosts          bool
	TrustLoopback           bool     // NoHostAuthenticationForLocalhost
	HostKeyAlgorithms       []string // none means good ones
	FixedHostKeyOrder       bool     // known_hosts may not change their order
	CASignatureAlgorithms   []string // none means good ones
	RequiredRSASize         int      // bits; 0 means 2048
	KexAlgorithms           []string // none means good ones
	Ciphers                 []string // none means good ones
	MACs                    []string // none means good ones
	RekeyLimit              uint64   // bytes; 0 leaves it to the cipher
	IdentityFiles           []string // private keys, or public ones of keys in an agent
	DefaultIdentities       bool     // IdentityFiles are only guesses
	CertificateFiles        []string
	IdentitiesOnly          bool
	IdentityAgent           string   // a socket; empty for none
	PubkeyAlgorithms        []string // none means good ones
	AuthMethods             []string // in order; nil means all
	Password                string   // answers the server once, in place of the Prompter; empty to ask
	NumberOfPasswordPrompts int      // 0 means 3, and less than 0 none
	BatchMode               bool     // ask nothing
	NoBanner                bool     // LogLevel is below INFO, where ssh does not show what servers say

	AddressFamily       string        // "tcp4", "tcp6", or empty for any
	BindAddress         string        // local address; empty for any
	BindInterface       string        // of which an address is bound; empty for any
	ConnectTimeout      time.Duration // for connection and key exchange; 0 means 30 s
	ConnectionAttempts  int           // 0 means 1
	NoTCPKeepAlive      bool
	ServerAliveInterval time.Duration // 0 for no checks
	ServerAliveCountMax int           // 0 means 3

	// Ignored are settings that would have an effect on ssh and have none
	// here, with where they are from.
	Ignored []string
}

// Overrides are what a command line says, and so comes before all files.
type Overrides struct {
	// File is the file to read instead of the user's and the system's, as
	// ssh -F. "none" reads nothing.
	File string

	Port       int      // as ssh -p; what the target says comes first
	Jump       string   // as ssh -J
	Identities []string // as ssh -i
	Options    []string // as ssh -o: "Keyword=value" or "Keyword value"

	// NoExec makes Match exec an error instead of running its command.
	NoExec bool

	// Account is the user whose files are read and who logs in; nil is the one that runs
	// this program. It is for a server that is going to become that user.
	Account *user.User
}

// name is what the host is looked up as in known_hosts.
func (d *Destination) name() string {
	if d.HostKeyAlias != "" {
		return d.HostKeyAlias
	}
	return hostPort(d.Host, d.Port)
}

// knownHostsFiles returns all of them, the user's first.
func (d *Destination) knownHostsFiles() []string {
	return slices.Concat(d.UserKnownHostsFiles, d.GlobalKnownHostsFiles)
}

// way identifies the account and all that decides which machine it is on: behind
// two jump hosts the same address may be two machines.
func (d *Destination) way() string {
	way := fmt.Sprintf("%q %q %q %q %q", d.login(), d.HostKeyAlias, d.ProxyCommand, d.BindAddress, d.BindInterface)
	if d.Jump != nil {
		way += " from " + d.Jump.way()
	}
	return way
}

// Endpoint returns user@host[:port], followed by that of the host which leads there, and so on.
func (d *Destination) Endpoint() string {
	if d.Jump != nil {
		return d.login() + " by " + d.Jump.Endpoint()
	}
	return d.login()
}

// login returns user@host for messages.
func (d *Destination) login() string {
	return Target{User: d.User, Host: d.Host, Port: d.Port}.String()
}

// address is what to connect to.
func (d *Destination) address() string {
	port := d.Port
	if port == 0 {
		port = defaultPort
	}
	return net.JoinHostPort(d.Host, strconv.Itoa(port))
}
