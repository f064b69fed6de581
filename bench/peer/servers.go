package peer

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// maxAsked is the limit of simultaneous transfers that is set for servers with such a setting. It
// is a little higher than the largest measurement needs.
const maxAsked = 12000

// Haul returns the recipes for the ways to start a haul binary as a TFTP server, such as with
// separate ports and with a single port. Flags that older builds lack are left out. Haul returns an
// error if there is no binary, or the binary does not run.
func Haul(name, path string) ([]Server, error) {
	abs, err := filepath.Abs(path)
	if err == nil {
		_, err = exec.LookPath(abs)
	}
	if err != nil {
		return nil, fmt.Errorf("there is no haul to measure at %s: %w", path, unwrap(err))
	}
	p := program{path: abs}
	help := p.flags("serve")
	if !strings.Contains(help, "--tftp") {
		return nil, fmt.Errorf("run %s serve --help: it does not print the help of a haul server; is it one? It printed %.100q", abs, help)
	}
	s := Server{
		Name: name, Version: strings.TrimSpace(p.output("version")), Path: abs, Build: p.build(),
		Windows: true, Uploads: Disk,
		args: func(o Options, a netip.AddrPort) []string { return haulArgs(help, o, a) },
	}
	single := s
	single.Name += " single-port"
	single.SinglePort = true
	single.args = func(o Options, a netip.AddrPort) []string { return append(haulArgs(help, o, a), "--single-port") }
	two := s
	two.Name += " 2 loops"
	two.Variant = true
	two.args = func(o Options, a netip.AddrPort) []string { return append(haulArgs(help, o, a), "--loops", "2") }
	all := []Server{s, single, two}
	if strings.Contains(help, "--no-fsync ") {
		// The peers work in this way: none of them waits for the disk.
		without := s
		without.Name += " without fsync"
		without.OnlyUploads, without.Note = true, "does not wait for the disk, as no other server does"
		without.args = func(o Options, a netip.AddrPort) []string { return append(haulArgs(help, o, a), "--no-fsync") }
		all = append(all, without)
	}
	return all, nil
}

// haulArgs returns the arguments for haul serve, for any build of haul. With these, haul does not
// log each transfer, and does not treat a single address with thousands of requests as an attack.
func haulArgs(help string, o Options, a netip.AddrPort) []string {
	args := []string{"serve", o.Dir, "--tftp", a.String()}
	if !o.ReadOnly {
		args = append(args, "--upload", "overwrite")
	}
	for _, flag := range [][]string{
		{"--quiet"}, {"--rate", "-1"}, {"--http", ""}, {"--https", ""}, {"--sftp", ""},
	} {
		if strings.Contains(help, flag[0]+" ") {
			args = append(args, flag...)
		}
	}
	return args
}

func (f *finder) haul() {
	servers, err := Haul("haul", filepath.Join(f.bin, "haul"))
	if err != nil {
		f.absent(err.Error()+"; \"make build\" builds it", "haul", "haul single-port")
		return
	}
	f.add(servers...)
}

// floors adds the floors: programs of this repository that show the least possible cost. Their
// version is that of the repository.
func (f *finder) floors() {
	const note = "a yardstick: no timers, no disk, files in memory as packets"
	batch := Server{Windows: true, Uploads: Discards, Floor: true, keeps: true, Note: note}
	if p, ok := f.built("floor/floor-batch", "floor-64", "floor-1", "floor-64 single-port"); ok {
		for _, v := range []struct {
			name string
			args []string
		}{
			{"floor-64", []string{"--batch", "64"}},
			{"floor-1", []string{"--batch", "1"}},
			{"floor-64 single-port", []string{"--batch", "64", "--single-port"}},
		} {
			s := batch
			s.Name, s.Path, s.SinglePort = v.name, p.path, len(v.args) == 3
			s.args = func(o Options, a netip.AddrPort) []string { return floorArgs(o, a, v.args...) }
			f.add(s)
		}
	}
	if p, ok := f.built("floor/floor-epoll", "floor-epoll"); ok {
		s := batch
		s.Name, s.Path = "floor-epoll", p.path
		s.args = func(o Options, a netip.AddrPort) []string { return floorArgs(o, a) }
		f.add(s)
	}
}

func floorArgs(o Options, a netip.AddrPort, more ...string) []string {
	args := append([]string{"--address", a.Addr().String(), "--port", port(a)}, more...)
	if o.KeepUploads {
		args = append(args, "--store")
	}
	return append(args, o.Dir)
}

func (f *finder) hpa() {
	p, ok := f.packaged("tftpd-hpa", "in.tftpd", "tftpd-hpa")
	if !ok {
		return
	}
	f.add(Server{
		Name: "tftpd-hpa", Version: p.version("--version"), Path: p.path, env: p.env,
		Uploads: Disk, needs: "root", MaxConcurrent: 1000, Note: "a process for each transfer, 2.6 MB each",
		args: func(o Options, a netip.AddrPort) []string {
			return []string{"--foreground", "--address", a.String(), "--secure", "--create", "--permissive", "--user", "root", o.Dir}
		},
	})
}

func (f *finder) atftpd() {
	p, ok := f.packaged("atftpd", "atftpd", "atftpd")
	if !ok {
		return
	}
	name, group := self()
	f.add(Server{
		Name: "atftpd", Version: p.version("--version"), Path: p.path, env: p.env,
		Windows: true, MinBlock: 64, Uploads: Disk, MaxConcurrent: 100, Note: "a thread for each transfer; aborts at 1,000",
		args: func(o Options, a netip.AddrPort) []string {
			return []string{"--daemon", "--no-fork", "--bind-address", a.Addr().String(), "--port", port(a), "--user", name, "--group", group,
				"--maxthread", strconv.Itoa(maxAsked), "--logfile", "-", "--verbose=3", o.Dir}
		},
	})
}

func (f *finder) dnsmasq() {
	p, ok := f.packaged("dnsmasq-base", "dnsmasq", "dnsmasq", "dnsmasq single-port")
	if !ok {
		return
	}
	args := func(o Options, a netip.AddrPort) []string {
		return []string{"--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--log-facility=-", "--pid-file=",
			"--port=0", "--listen-address=" + a.Addr().String(), "--enable-tftp", "--tftp-root=" + o.Dir,
			"--tftp-max=" + strconv.Itoa(maxAsked), "--quiet-tftp"}
	}
	s := Server{
		Name: "dnsmasq", Version: p.version("--version"), Path: p.path, env: p.env,
		needs: "root", port69: true, Note: "some transfers fail at 10,000, some in some runs at 1,000",
		args: func(o Options, a netip.AddrPort) []string { return append(args(o, a), "--bind-interfaces") },
	}
	// If dnsmasq 2.90 is bound to one address, it cannot send on a single port ("network is
	// unreachable"). So here it binds all addresses, and answers only on the given address.
	single := s
	single.Name += " single-port"
	single.SinglePort, single.MaxConcurrent = true, 1000
	single.args = func(o Options, a netip.AddrPort) []string { return append(args(o, a), "--tftp-single-port") }
	f.add(s, single)
}

func (f *finder) pinTFTP() {
	p, ok := f.built("pintftp/pintftp", "pin/tftp", "pin/tftp single-port")
	if !ok {
		return
	}
	args := func(o Options, a netip.AddrPort) []string { return []string{"-listen", a.String(), "-dir", o.Dir} }
	s := Server{Name: "pin/tftp", Version: "2.2.0 (Debian), " + p.compiler(), Path: p.path, MinBlock: 512, Uploads: Disk, args: args}
	single := s
	single.Name += " single-port"
	single.SinglePort, single.MaxConcurrent = true, 100
	single.Note = "drops packets beyond one for each transfer"
	single.args = func(o Options, a netip.AddrPort) []string { return append(args(o, a), "-single-port") }
	f.add(s, single)
}

func (f *finder) rsTFTPD() {
	p, ok := f.built("rs-tftpd/bin/tftpd", "rs-tftpd", "rs-tftpd single-port")
	if !ok {
		return
	}
	args := func(o Options, a netip.AddrPort) []string {
		return []string{"--ip-address", a.Addr().String(), "--port", port(a), "--directory", o.Dir, "--overwrite", "--quiet"}
	}
	s := Server{Name: "rs-tftpd", Version: p.version("--version"), Path: p.path, Windows: true, Uploads: Disk, args: args}
	single := s
	single.Name += " single-port"
	single.SinglePort, single.MaxConcurrent, single.Note = true, 1000, "slow, and some transfers fail, at 10,000"
	single.args = func(o Options, a netip.AddrPort) []string { return append(args(o, a), "--single-port") }
	f.add(s, single)
}

func (f *finder) rTFTPD() {
	p, ok := f.built("r-tftpd/bin/r-tftpd", "r-tftpd")
	if !ok {
		return
	}
	f.add(Server{
		Name: "r-tftpd", Version: p.version("--version"), Path: p.path, inDir: true,
		// Otherwise it would log a line for each transfer, which nobody reads.
		env:     []string{"RUST_LOG=error"},
		Windows: true, Uploads: Discards, Note: "discards uploads: that is all it can do with them",
		args: func(o Options, a netip.AddrPort) []string {
			return []string{"--listen", a.Addr().String(), "--port", port(a), "--max-connections", strconv.Itoa(maxAsked), "--wrq-devnull", "--disable-proxy"}
		},
	})
}

func (f *finder) goServer() {
	p, ok := f.built("goserver/goserver", "goserver")
	if !ok {
		return
	}
	f.add(Server{
		Name: "goserver", Version: p.compiler(), Path: p.path, Uploads: Memory, Note: "our own, built as an ordinary Go server is: a goroutine and a socket for each transfer",
		args: func(o Options, a netip.AddrPort) []string { return []string{"-listen", a.String(), "-dir", o.Dir} },
	})
}

// tftpdGo adds tftpd-go, which supports no options.
func (f *finder) tftpdGo() {
	p, ok := f.built("tftpd-go/tftpd-go", "tftpd-go")
	if !ok {
		return
	}
	f.add(Server{
		Name: "tftpd-go", Version: "f05ee5d, " + p.compiler(), Path: p.path, Uploads: Memory, OnlyUploads: true, MinBlock: 512,
		Note: "a goroutine for each transfer, of a pool; serves only what was uploaded to it",
		args: func(_ Options, a netip.AddrPort) []string {
			return []string{"-address", a.Addr().String(), "-port", port(a), "-threads", strconv.Itoa(maxAsked), "-timeout", "10"}
		},
	})
}

func port(a netip.AddrPort) string { return strconv.Itoa(int(a.Port())) }

// self returns this process's user and group, for servers that would otherwise become the user
// nobody. If the user or the group has no name, self returns its number.
func self() (name, group string) {
	name, group = strconv.Itoa(os.Getuid()), strconv.Itoa(os.Getgid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if g, err := user.LookupGroupId(group); err == nil {
		group = g.Name
	}
	return name, group
}
