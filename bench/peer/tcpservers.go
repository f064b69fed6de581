package peer

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Answer describes the response of a TCP server to each request.
type Answer struct {
	Size      int           // size of the body, in bytes
	Close     bool          // the server closes the connection after the answer
	Encrypted bool          // the program encrypts the body with AES-128-CBC
	Delay     time.Duration // how long the server waits before the answer
	File      string        // name of the file in Options.Dir that is the answer instead of Size bytes; may be empty

	// Cert and Key are the paths of a certificate and its key, for TLS from the first byte. They
	// are empty without TLS.
	Cert, Key string
}

// OfTCP is a suffix of the name of an absent TCP server, as OfSFTP is for a pair.
const OfTCP = " (TCP)"

// A Trade says which answers a TCP server can send.
type Trade struct {
	Answers bool // the server can send Answer.Size bytes
	Files   bool // the server can send a file
	TLS     bool
	Stacks  bool // on SIGUSR1, the server reports how much memory the stacks of its goroutines use: see package tcpprog
}

// Does reports whether the server can send an answer.
func (t Trade) Does(a Answer) bool {
	if a.Cert != "" && !t.TLS {
		return false
	}
	if a.File != "" {
		return t.Files
	}
	return t.Answers
}

// A streamRecipe describes a program around package tcpprog, or one way to start such a program.
type streamRecipe struct {
	name, program string // program is a path below the directory of the peers, or below bin if `ours` is set
	module        string // module whose version is shown; "" means that the version of the compiler is shown
	ours          bool
	trade         Trade
	more          []string // further arguments of the program
	note          string
}

const (
	ofTCP    = "package tcp, in a program of the suite"
	deferred = " DEFER_ACCEPT"
)

var (
	onlyAnswers = Trade{Answers: true, Stacks: true}
	andTLS      = Trade{Answers: true, Stacks: true, TLS: true}
	allOfIt     = Trade{Answers: true, Stacks: true, TLS: true, Files: true}
)

// streamRecipes describes all programs around package tcpprog. For HTTP, haul is configured to
// expect that clients speak first. Other libraries with this setting are measured with it and
// without it.
var streamRecipes = []streamRecipe{
	{name: "haul", program: "haultcp", ours: true, trade: andTLS, more: []string{"-defer"}, note: ofTCP + "; clients speak first (TCP_DEFER_ACCEPT)"},
	{name: "haul without DEFER_ACCEPT", program: "haultcp", ours: true, trade: andTLS, note: ofTCP},
	{name: "haul events", program: "haultcp", ours: true, trade: onlyAnswers, more: []string{"-defer", "-events"}, note: ofTCP + "; calls of a function that never waits, in an event loop; clients speak first (TCP_DEFER_ACCEPT)"},
	{name: "haul events without DEFER_ACCEPT", program: "haultcp", ours: true, trade: onlyAnswers, more: []string{"-events"}, note: ofTCP + "; calls of a function that never waits, in an event loop"},
	{name: "haul portable", program: "haultcp-portable", ours: true, trade: andTLS, more: []string{"-defer"}, note: ofTCP + ", built with the tag haul_portable: on package net"},
	{name: "haul under net/http", program: "haultcp", ours: true, trade: allOfIt, more: []string{"-defer", "-under"}, note: ofTCP + ", accepts connections for net/http"},
	{name: "tcpserver", program: "tcp/tcpserver", module: "github.com/maurice2k/tcpserver", trade: andTLS},
	{name: "tcpserver" + deferred, program: "tcp/tcpserver", module: "github.com/maurice2k/tcpserver", trade: andTLS, more: []string{"-defer"}},
	{name: "gnet", program: "tcp/gnet", module: "github.com/panjf2000/gnet/v2", trade: onlyAnswers, note: "callbacks in an event loop"},
	{name: "evio", program: "tcp/evio", module: "github.com/tidwall/evio", trade: onlyAnswers, note: "callbacks in an event loop"},
	{name: "fasthttp", program: "tcp/fasthttp", module: "github.com/valyala/fasthttp", trade: andTLS},
	{name: "net/http", program: "tcp/nethttp", trade: allOfIt},
	{name: "netpoll", program: "tcp/netpoll", module: "github.com/cloudwego/netpoll", trade: onlyAnswers, note: "callbacks in goroutines of a pool"},
	{name: "goroutine pool", program: "tcp/pool", trade: andTLS, note: "our own, built as tcpserver is: goroutines on package net that are used again"},
	{name: "goroutines", program: "tcp/goroutines", trade: andTLS, note: "our own, built as an ordinary Go server is: a goroutine for each connection of package net"},
}

// These are the names of the TCP servers that are not built around package tcpprog.
const (
	haulServe    = "haul serve"
	nginx        = "nginx"
	caddy        = "caddy"
	streamFloor  = "floor-tcp"
	streamFloorD = streamFloor + deferred
)

// StreamNames returns the names of all TCP servers, including absent ones.
func StreamNames() []string {
	var all []string
	for _, r := range streamRecipes {
		all = append(all, r.name)
	}
	return append(all, haulServe, nginx, caddy, streamFloor, streamFloorD)
}

// Streams returns a Set with the TCP servers as Streams, with the tools for their loads, and with
// the absent ones. haul is the path of a haul binary, and binDir is as for Find.
func Streams(binDir, haul string) Set {
	f := newFinder(binDir)
	f.streams(haul)
	return f.set
}

func (f *finder) streams(haul string) {
	for _, r := range streamRecipes {
		f.stream(r)
	}
	if s, err := haulHTTP(haul); err != nil {
		f.absent(err.Error(), haulServe+OfTCP)
	} else {
		f.addStream(s)
	}
	if p, err := f.unpacked("nginx", "nginx"); err != nil {
		f.absent(err.Error(), nginx+OfTCP)
	} else {
		f.addStream(nginxServer(p))
	}
	if p, err := f.program("caddy/caddy"); err != nil {
		f.absent(err.Error(), caddy+OfTCP)
	} else {
		f.addStream(caddyServer(p))
	}
	p, err := f.program("floor/floor-http")
	for _, name := range []string{streamFloor, streamFloorD} {
		if err != nil {
			f.absent(err.Error(), name+OfTCP)
		} else {
			f.addStream(httpFloor(name, p))
		}
	}
	f.streamTools()
}

func (f *finder) addStream(s Server) {
	s.tcp = true
	s.Build = program{path: s.Path}.build()
	f.set.Streams = append(f.set.Streams, s)
}

// stream adds the program that r describes to the set, or records it as absent.
func (f *finder) stream(r streamRecipe) {
	p, err := f.program(r.program)
	if r.ours {
		if p, err = runnable(filepath.Join(f.bin, r.program)); err != nil {
			err = fmt.Errorf("there is no %s in %s: %w; \"make bin/%s\" builds it", r.program, f.bin, unwrap(err), r.program)
		}
	}
	if err != nil {
		f.absent(err.Error(), r.name+OfTCP)
		return
	}
	version := p.compiler()
	if r.module != "" {
		version = p.module(r.module)
	}
	f.addStream(Server{
		Name: r.name, Version: version, Path: p.path, Trade: r.trade, Note: r.note,
		args: func(o Options, a netip.AddrPort) []string { return append(programArgs(o, a), r.more...) },
	})
}

// programArgs returns the arguments with which a program around package tcpprog listens at a and
// sends o.Answer.
func programArgs(o Options, a netip.AddrPort) []string {
	args := []string{"-listen", a.String()}
	if o.Answer.Cert != "" {
		args = append(args, "-cert", o.Answer.Cert, "-key", o.Answer.Key)
	}
	if o.Answer.File != "" {
		return append(args, "-dir", o.Dir)
	}
	args = append(args, "-size", strconv.Itoa(o.Answer.Size))
	if o.Answer.Close {
		args = append(args, "-close")
	}
	if o.Answer.Encrypted {
		args = append(args, "-encrypted")
	}
	if o.Answer.Delay > 0 {
		args = append(args, "-delay", o.Answer.Delay.String())
	}
	return args
}

// httpFloor returns the recipe for the yardstick in C, floor-http.
func httpFloor(name string, p program) Server {
	return Server{
		Name: name, Path: p.path, Floor: true, Trade: Trade{Answers: true, Files: true},
		Note: "a yardstick: one thread, epoll, no timers",
		args: func(o Options, a netip.AddrPort) []string {
			args := []string{"--address", a.Addr().String(), "--port", port(a)}
			if name == streamFloorD {
				args = append(args, "--defer")
			}
			if o.Answer.File != "" {
				return append(args, "--file", filepath.Join(o.Dir, o.Answer.File))
			}
			args = append(args, "--size", strconv.Itoa(o.Answer.Size))
			if o.Answer.Close {
				args = append(args, "--close")
			}
			if o.Answer.Encrypted {
				args = append(args, "--encrypted")
			}
			if o.Answer.Delay > 0 {
				args = append(args, "--delay-ms", strconv.FormatInt(o.Answer.Delay.Milliseconds(), 10))
			}
			return args
		},
	}
}

// haulHTTP returns the recipe for haul serve with HTTP. It returns an error if this build of haul
// does not support HTTP.
func haulHTTP(path string) (Server, error) {
	p, err := runnable(path)
	if err != nil {
		return Server{}, fmt.Errorf("there is no haul to measure at %s: %w; \"make build\" builds it", path, unwrap(err))
	}
	help := p.flags("serve")
	if !strings.Contains(help, "--http ") || strings.Contains(help, "HTTP; not built yet") {
		return Server{}, errors.New("this build of haul serves no HTTP")
	}
	cert := certFlags(help)
	return Server{
		Name: haulServe, Version: strings.TrimSpace(p.output("version")), Path: p.path,
		Trade: Trade{Files: true, TLS: cert != nil},
		args: func(o Options, a netip.AddrPort) []string {
			args := []string{"serve", o.Dir}
			if o.Answer.Cert != "" {
				args = append(args, "--https", a.String(), cert[0], o.Answer.Cert, cert[1], o.Answer.Key)
			} else {
				args = append(args, "--http", a.String())
			}
			if strings.Contains(help, "--quiet ") {
				args = append(args, "--quiet")
			}
			return args
		},
	}, nil
}

// certFlags returns the names of the two flags for a certificate and its key, as the help text
// contains them, or nil.
func certFlags(help string) []string {
	for _, pair := range [][]string{{"--cert", "--key"}, {"--tls-cert", "--tls-key"}} {
		if !slices.ContainsFunc(pair, func(flag string) bool { return !strings.Contains(help, flag+" ") }) {
			return pair
		}
	}
	return nil
}

// nginxServer returns the recipe for nginx. It has one worker, because the server runs on one core.
func nginxServer(p program) Server {
	return Server{
		Name: nginx, Version: p.version("-v"), Path: p.path, env: p.env, Trade: Trade{Files: true, TLS: true},
		config: nginxConfig,
		args: func(o Options, _ netip.AddrPort) []string {
			return []string{"-e", "stderr", "-p", filepath.Dir(o.config), "-c", o.config}
		},
	}
}

// nginxConfig returns nginx's configuration. It sets up TLS in the same way as package tcpprog:
// version 1.3, X25519, AES-128-GCM, and no session resumption.
func nginxConfig(o Options, a netip.AddrPort) string {
	dir := filepath.Dir(o.config)
	var b strings.Builder
	fmt.Fprintf(&b, "daemon off;\nuser root;\nworker_processes 1;\npid %s/pid;\nerror_log stderr error;\n", dir)
	fmt.Fprintf(&b, "events { worker_connections 2048; }\nhttp {\naccess_log off; sendfile on; tcp_nopush on; keepalive_requests 100000;\n")
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&b, "%s_temp_path %s/%s;\n", kind, dir, kind)
	}
	ssl := ""
	if o.Answer.Cert != "" {
		ssl = " ssl http2"
		fmt.Fprintf(&b, "ssl_certificate %s; ssl_certificate_key %s;\n", o.Answer.Cert, o.Answer.Key)
		fmt.Fprintf(&b, "ssl_protocols TLSv1.3; ssl_ecdh_curve X25519; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;\n")
		fmt.Fprintf(&b, "ssl_session_cache off; ssl_session_tickets off;\n")
	}
	fmt.Fprintf(&b, "server { listen %s%s; root %s; }\n}\n", a, ssl, o.Dir)
	return b.String()
}
