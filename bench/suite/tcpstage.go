package suite

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/haul-project/haul/bench/link"
	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite/record"
)

// httpPort is the port of the first server in a TCP scenario. Servers that start later use the
// following ports, on which there are no connections in TIME_WAIT.
const httpPort = 18080

// settings returns the kernel settings for the network namespace of a TCP scenario. A closed
// connection stays in the state TIME_WAIT for a minute, on the side that closed first. If that is
// the client, its port remains in use. So clients have the full range of ports, and tcp_tw_reuse
// makes their ports available again after a second. No server here handles 64,000 connections in a
// second.
func settings() map[string]string {
	return map[string]string{
		"net.ipv4.tcp_congestion_control":  control,
		"net.ipv4.ip_local_port_range":     "1024 65535",
		"net.ipv4.ip_local_reserved_ports": fmt.Sprintf("%d-%d", httpPort, httpPort+maxStarts),
		"net.ipv4.tcp_tw_reuse":            "2", // 2 means only over loopback
		"net.core.somaxconn":               "4096",
		"net.ipv4.tcp_max_syn_backlog":     "4096",
	}
}

// maxStarts is larger than the number of servers that a scenario starts. Each server uses its own
// port, which clients must not take.
const maxStarts = 1000

// prepareTCP makes the files, the certificate and the network namespace of a TCP scenario.
func (st *stage) prepareTCP(ctx context.Context) error {
	var err error
	if st.local, err = os.MkdirTemp(filepath.Dir(st.root), "client-"); err != nil {
		return fmt.Errorf("make a directory for the clients: %w", err)
	}
	if st.isFile() {
		l := st.sc.Load
		l.Transfers = 1
		if err := st.makeFiles(ctx, l); err != nil {
			return err
		}
	}
	if st.sc.TLS {
		if st.cert, st.key, err = peer.NewCert(st.local, peer.Loopback); err != nil {
			return err
		}
	}
	cores, err := link.Cores()
	if err != nil {
		return err
	}
	// The first core handles the most interrupts. It is for the clients, because interrupts disturb
	// clients less than servers.
	st.cores = [2]int{link.A: cores[len(cores)-1], link.B: cores[0]}
	st.space, err = link.NewSpace(ctx, settings())
	return err
}

func (st *stage) isFile() bool { return st.sc.servesFiles() }

// servesFiles reports whether the answers in the scenario are files.
func (sc *Scenario) servesFiles() bool { return sc.Group == fileGroup || sc.Group == smallFileGroup }

// answer returns the answer that servers send in the scenario.
func (st *stage) answer() peer.Answer {
	a := peer.Answer{
		Size: int(st.sc.Size), Close: st.sc.Close, Encrypted: st.sc.Encrypted,
		Delay: time.Duration(st.sc.Delay * float64(time.Millisecond)), Cert: st.cert, Key: st.key,
	}
	if st.isFile() {
		a.File = fileName(st.sc.Size, "0")
	}
	return a
}

// tool returns a command that runs a tool on the clients' side. It returns an error if the tool is
// absent.
func (st *stage) tool(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	set := peer.Set{Tools: st.suite.tools}
	t, ok := set.Tool(name)
	if !ok {
		return nil, fmt.Errorf("%s is not there; \"bench peers\" says why", name)
	}
	return t.Command(ctx, st.command, args...), nil
}

// tcpload returns a command that runs tcpload for the scenario's answers. `verb` is check, hold or
// load.
func (st *stage) tcpload(ctx context.Context, verb string, conns int, limit time.Duration) (*exec.Cmd, error) {
	args := []string{verb, "-addr", st.server.Addr().String(), "-size", strconv.FormatInt(st.sc.Size, 10),
		"-n", strconv.Itoa(conns), "-for", limit.String()}
	for _, f := range []struct {
		flag string
		set  bool
	}{{"-tls", st.sc.TLS}, {"-close", st.sc.Close}, {"-encrypted", st.sc.Encrypted}} {
		if f.set {
			args = append(args, f.flag)
		}
	}
	if st.isFile() {
		name := fileName(st.sc.Size, "0")
		args = append(args, "-path", "/"+name, "-want", filepath.Join(st.root, name))
	}
	return st.tool(ctx, peer.TCPLoad, args...)
}

// check returns an error if the server sends a wrong answer. It compares a few answers byte by
// byte, because a load generator only counts answers.
func (st *stage) check(ctx context.Context) error {
	cmd, err := st.tcpload(ctx, "check", 1, time.Second)
	if err != nil {
		return err
	}
	if _, err := run(cmd); err != nil {
		return fmt.Errorf("look whether its answers are right: %w", err)
	}
	return nil
}

// pinning returns a warning if the server and its clients share a core.
func (st *stage) pinning() []string {
	if st.sc.Protocol == record.TCP && st.cores[link.A] == st.cores[link.B] {
		return []string{"there is one core only, which the server shares with its clients"}
	}
	return nil
}
