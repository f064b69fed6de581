package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/serve"
	"github.com/haul-project/haul/site"
	"github.com/haul-project/haul/tftp"
)

// serveFlags are the flags of "haul serve". Most are fields of the configuration; those
// that have to be parsed first are text.
type serveFlags struct {
	serve.Config

	allow, deny           []string
	roots, access         []string
	perClient, upload     string
	ports, mtu            string
	sftpExempt            []string
	httpExempt, httpProxy []string
	trace                 traceFlags
}

func (f *serveFlags) add(cmd *cobra.Command) {
	f.Config = serve.Default()
	addGroup(cmd, f.addTFTP, "TFTP")
	addGroup(cmd, f.addSFTP, "SFTP")
	addGroup(cmd, f.addHTTP, "HTTP")
	addGroup(cmd, f.addFiles, "files")
	addGroup(cmd, f.addOps, "ops")
	addGroup(cmd, f.addNetworks, "limits")
	for flag := range strings.FieldsSeq(limitFlags) {
		group(cmd, flag, "limits")
	}
	for flag := range strings.FieldsSeq(traceFlagNames) {
		group(cmd, flag, "ops")
	}
}

// limitFlags are flags of one protocol, or about files, that limit clients, and
// traceFlagNames those of TFTP about packets. Both are explained by topics of their own.
const (
	limitFlags = `max-transfers max-per-client rate loops memory max-upload sftp-rate sftp-conns sftp-conns-per-source sftp-exempt
		http-rate http-conns-per-source http-exempt`
	traceFlagNames = "trace pcap trace-hex"
)

// addNetworks adds the flags about networks that are served.
func (f *serveFlags) addNetworks(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.allow, "allow", nil, "serve only this `NETWORK`; several are separated by commas")
	flags.StringSliceVar(&f.deny, "deny", nil, "do not serve this `NETWORK`; several are separated by commas")
}

// addOps adds the flags about how the server runs.
func (f *serveFlags) addOps(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&f.Grace, "grace", f.Grace, "give transfers this `TIME` to finish after the first signal; calls to a disk that hangs get 20s more")
	flags.StringVar(&f.User, "user", "", "become this `USER` once the ports are open: NAME, NAME:GROUP or UID:GID")
	flags.StringVar(&f.Metrics, "metrics", "", "serve Prometheus metrics on `ADDRESS` over HTTP; all who can connect can read them, so use 127.0.0.1:PORT")
	flags.BoolVar(&f.Restartable, "restartable", false, "allow restarts without downtime, by SIGUSR2")
	flags.StringVar(&f.LogFormat, "log-format", f.LogFormat, "log in this `FORMAT`: text or json")
	flags.BoolVarP(&f.Quiet, "quiet", "q", false, "log failures only")
	completeWords(cmd, "log-format", "text", "json")
}

// config returns the configuration of a command line. given reports whether that has a
// flag.
func (f *serveFlags) config(dirs []string, given func(flag string) bool) (_ serve.Config, err error) {
	f.Dirs, f.Version = dirs, versionString()
	if err := f.choose(given); err != nil {
		return f.Config, err
	}
	if f.Allow, err = parseNetworks("allow", f.allow); err != nil {
		return f.Config, err
	}
	if f.Deny, err = parseNetworks("deny", f.deny); err != nil {
		return f.Config, err
	}
	for _, parse := range []func() error{f.parseFiles, f.parseTFTP, f.parseSFTP, f.parseHTTP} {
		if err := parse(); err != nil {
			return f.Config, err
		}
	}
	return f.Config, nil
}

// choose decides which protocols are served. given reports whether the command
// line has a flag.
func (f *serveFlags) choose(given func(flag string) bool) error {
	f.TFTP.FallBack = !given("tftp")
	if !given("tftp") && (given("sftp") || given("http") || given("https")) {
		f.TFTP.Listen = nil // even if the address given is empty, as from a variable that is not set
	}
	for _, flag := range tftpOnly {
		if given(flag) && !f.ServesTFTP() {
			return failure.Usage.Errorf("--%s is for TFTP, which is not served; add --tftp :69", flag)
		}
	}
	for _, flag := range fileRules {
		if given(flag) && !f.ServesAnybody() && (flag != "upload" || !f.ServesSFTP()) {
			return failure.Usage.Errorf("--%s is for TFTP, and for HTTP without --http-auth, neither of which is served; add --tftp :69 or --http :80", flag)
		}
	}
	if given("max-upload") && !f.ServesTFTP() && !f.ServesHTTP() {
		return failure.Usage.Errorf("--max-upload is for TFTP and HTTP, neither of which is served; add --tftp :69 or --http :80")
	}
	for _, flag := range httpOnly {
		if given(flag) && !f.ServesHTTP() {
			return failure.Usage.Errorf("--%s is for HTTP, which is not served; add --http :80 or --https :443", flag)
		}
	}
	for _, flag := range sftpOnly {
		if given(flag) && !f.ServesSFTP() {
			return failure.Usage.Errorf("--%s is for SFTP, which is not served; add --sftp :2022", flag)
		}
	}
	return nil
}

// fileRules are flags about files that TFTP has in common with HTTP without users.
var fileRules = strings.Fields("root per-client shared map fold-case hidden access upload upload-dir")

// addFiles adds the flags about files.
func (f *serveFlags) addFiles(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.roots, "root", nil, "give some clients another directory, as `CLIENT=DIR`; repeat for more")
	flags.StringVar(&f.perClient, "per-client", "", "give each client a directory below DIR: `BY` is ip or mac")
	flags.BoolVar(&f.Files.Shared, "shared", false, "with --per-client, serve from DIR what is missing there")
	flags.StringVar(&f.Files.Map, "map", "", "rewrite names by the rules in `FILE`, as tftpd-hpa -m does")
	flags.BoolVar(&f.Files.FoldCase, "fold-case", false, "ignore upper and lower case in names")
	flags.BoolVar(&f.Files.Hidden, "hidden", false, "serve and accept names that begin with a dot too; users who log in always may use them")
	flags.StringArrayVar(&f.access, "access", nil, "allow or deny clients some files by this `RULE`; repeat for more")
	flags.StringVar(&f.upload, "upload", "", "let clients write files: `MODE` is create (new files only), overwrite (replace files too) or unique (add a time stamp to each name)")
	flags.StringVar(&f.Files.UploadDir, "upload-dir", "", "write uploads to this `DIR`, and serve nothing from it")
	sizeVar(flags, &f.Files.MaxUpload, "max-upload", f.Files.MaxUpload, "largest upload over TFTP and HTTP, of users too")

	completeWords(cmd, "upload", "create", "overwrite", "unique")
	completeWords(cmd, "per-client", "ip", "mac")
}

func (f *serveFlags) parseFiles() (err error) {
	if f.Files.Upload, err = parseUpload(f.upload); err != nil {
		return err
	}
	if f.perClient != "" {
		if f.Files.PerClient, err = site.ParsePerClient(f.perClient); err != nil {
			return failure.Usage.Errorf("--per-client: %w", err)
		}
	}
	for _, word := range f.roots {
		root, err := parseRoot(word)
		if err != nil {
			return err
		}
		f.Files.Roots = append(f.Files.Roots, root)
	}
	for _, word := range f.access {
		rule, err := site.ParseRule(word)
		if err != nil {
			return failure.Usage.Errorf("--access %q: %w", word, err)
		}
		f.Files.Access = append(f.Files.Access, rule)
	}
	return nil
}

func parseUpload(word string) (site.Policy, error) {
	if word == "" {
		return site.UploadNone, nil
	}
	p, err := site.ParsePolicy(word)
	if err != nil || p == site.UploadNone {
		return p, failure.Usage.Errorf("--upload %s: choose create, overwrite or unique", word)
	}
	return p, nil
}

// parseRoot reads "CLIENT=DIR". CLIENT may contain an equals sign itself, as in
// "on=:6969", so the first that has a valid CLIENT in front of it counts.
func parseRoot(word string) (serve.Root, error) {
	var first error
	for i := range len(word) {
		if word[i] != '=' {
			continue
		}
		m, err := site.ParseMatch(word[:i])
		if err == nil {
			return serve.Root{For: m, Dir: word[i+1:]}, nil
		}
		if first == nil || strings.HasPrefix(word, "on=") {
			first = err
		}
	}
	if first == nil {
		first = errors.New("it is CLIENT=DIR")
	}
	return serve.Root{}, failure.Usage.Errorf("--root %s: %w", word, first)
}

// tftpOnly are flags that mean nothing without TFTP.
var tftpOnly = strings.Fields(`single-port ports mtu max-transfers max-per-client rate loops memory blksize windowsize no-offload
	trace pcap trace-hex upload-parents`)

// addTFTP adds the flags of TFTP.
func (f *serveFlags) addTFTP(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.TFTP.Listen, "tftp", f.TFTP.Listen, "serve TFTP on `ADDRESS`, HOST:PORT or :PORT; several are separated by commas")
	flags.BoolVar(&f.TFTP.SinglePort, "single-port", false, "answer from the port that the request came to, for NAT and containers")
	flags.StringVar(&f.ports, "ports", "", "use ports `FIRST-LAST` for transfers, for firewalls (default: the kernel chooses)")
	flags.StringVar(&f.mtu, "mtu", "auto", "send IP packets of at most `N` bytes; auto asks the kernel, none lets clients choose")
	flags.IntVar(&f.TFTP.MaxTransfers, "max-transfers", f.TFTP.MaxTransfers, "at most `N` TFTP transfers at a time")
	flags.IntVar(&f.TFTP.MaxPerClient, "max-per-client", 0, "at most `N` TFTP transfers at a time for one address (0: no limit for single addresses)")
	flags.IntVar(&f.TFTP.Rate, "rate", 0, fmt.Sprintf("at most `N` TFTP requests a second from one address (0: %d, localhost exempt; -1: no limit)", tftp.DefaultRate))
	flags.IntVar(&f.TFTP.Loops, "loops", 0, fmt.Sprintf("at most `N` event loops for one TFTP address, up to %d (0: one for two CPUs)", serve.MaxLoops))
	sizeVar(flags, &f.TFTP.Memory, "memory", f.TFTP.Memory, "use at most this much memory for the buffers of all TFTP transfers")
	flags.IntVar(&f.TFTP.BlockSize, "blksize", 0, "agree to TFTP blocks of at most `N` bytes (0: any)")
	flags.IntVar(&f.TFTP.WindowSize, "windowsize", f.TFTP.WindowSize, "agree to TFTP windows of at most `N` blocks")
	flags.BoolVar(&f.TFTP.NoOffload, "no-offload", false, "do not let the kernel split and join datagrams")
	flags.BoolVar(&f.TFTP.UploadParents, "upload-parents", false, "make missing directories for uploads over TFTP, as uploads over HTTP do")
	f.trace.add(cmd)
	completeWords(cmd, "mtu", "auto", "none", "1500")
}

func (f *serveFlags) parseTFTP() (err error) {
	if f.TFTP.FirstPort, f.TFTP.LastPort, err = parsePorts(f.ports); err != nil {
		return err
	}
	if f.TFTP.MTU, err = parseMTU(f.mtu); err != nil {
		return err
	}
	f.Trace, err = f.trace.config()
	return err
}

// parsePorts reads "FIRST-LAST" or one port.
func parsePorts(s string) (first, last uint16, err error) {
	if s == "" {
		return 0, 0, nil
	}
	a, b, several := strings.Cut(s, "-")
	if !several {
		b = a
	}
	low, err1 := strconv.ParseUint(a, 10, 16)
	high, err2 := strconv.ParseUint(b, 10, 16)
	if err1 != nil || err2 != nil || low == 0 || low > high {
		return 0, 0, failure.Usage.Errorf("--ports %s: it is FIRST-LAST, both from 1 to 65535", s)
	}
	return uint16(low), uint16(high), nil
}

func parseMTU(s string) (int, error) {
	switch s {
	case "auto":
		return 0, nil
	case "none":
		return -1, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < serve.MinMTU || n > serve.MaxMTU {
		return 0, failure.Usage.Errorf("--mtu %s: it is auto, none, or %d to %d bytes", s, serve.MinMTU, serve.MaxMTU)
	}
	return n, nil
}

// sftpOnly are flags that mean nothing without SFTP.
var sftpOnly = strings.Fields("users host-keys sftp-rate sftp-conns sftp-conns-per-source sftp-in-place sftp-special-bits sftp-exempt")

// addSFTP adds the flags of SFTP.
func (f *serveFlags) addSFTP(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.SFTP.Listen, "sftp", nil, "serve SFTP on `ADDRESS`, such as :2022; TFTP then needs --tftp")
	flags.StringVar(&f.SFTP.Users, "users", "", "let the users in `FILE` log in by SFTP (default: "+serve.UsersPlaces+", if it exists)")
	flags.StringVar(&f.SFTP.HostKeys, "host-keys", "", "keep SSH host keys in `DIR` (default: "+serve.HostKeysPlaces+"); none: a key for this run only, in memory")
	sizeVar(flags, &f.SFTP.Rate, "sftp-rate", 0, "bytes a second each way for all SFTP users together, such as 50MB (0: no limit)")
	flags.IntVar(&f.SFTP.MaxConns, "sftp-conns", f.SFTP.MaxConns, "at most `N` SSH connections at a time")
	flags.IntVar(&f.SFTP.MaxConnsPerSource, "sftp-conns-per-source", f.SFTP.MaxConnsPerSource, "at most `N` SSH connections at a time from one address (IPv6: from one /64)")
	flags.BoolVar(&f.SFTP.InPlace, "sftp-in-place", false, "show an upload under its name from its first byte on, so that clients can resume it (reput)")
	flags.BoolVar(&f.SFTP.SpecialBits, "sftp-special-bits", false, "let clients set and clear setuid, setgid and sticky bits (by default directories keep theirs, and files lose them)")
	flags.StringSliceVar(&f.sftpExempt, "sftp-exempt", nil, "never block this `NETWORK` for wrong passwords, nor limit its connections; several are separated by commas")
}

func (f *serveFlags) parseSFTP() (err error) {
	f.SFTP.Exempt, err = parseNetworks("sftp-exempt", f.sftpExempt)
	return err
}

// httpOnly are flags that mean nothing without HTTP.
var httpOnly = strings.Fields("cert key listing index precompressed http-auth http-plain-auth http-exempt http-rate http-conns-per-source http-proxy")

// unixProxies stands, in --http-proxy, for all who connect by a unix socket.
const unixProxies = "unix"

// addHTTP adds the flags of HTTP and HTTPS.
func (f *serveFlags) addHTTP(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.HTTP.Listen, "http", nil, "serve HTTP on `ADDRESS`, such as :8080; TFTP then needs --tftp")
	flags.StringSliceVar(&f.HTTP.ListenTLS, "https", nil, "serve HTTPS on `ADDRESS`, such as :8443; needs --cert")
	flags.StringVar(&f.HTTP.Cert, "cert", "", "certificate for HTTPS, with its intermediates: a PEM `FILE`, read again when it changes")
	flags.StringVar(&f.HTTP.Key, "key", "", "private key of the certificate: a PEM `FILE` (default: that of --cert)")
	flags.BoolVar(&f.HTTP.Listing, "listing", false, "list directories over HTTP, as HTML or JSON")
	flags.StringVar(&f.HTTP.Index, "index", f.HTTP.Index, "serve the file `NAME` for a directory, if there is one; empty: none; with --listing, ?list lists the directory anyway")
	flags.BoolVar(&f.HTTP.Precompressed, "precompressed", false, "send NAME.br, NAME.zst or NAME.gz for NAME to clients that accept it; a user who may write these can then change what others get for NAME")
	flags.StringVar(&f.HTTP.Users, "http-auth", "", "admit only the users in `FILE` over HTTP, by password (default: everybody, without login)")
	flags.BoolVar(&f.HTTP.PlainPasswords, "http-plain-auth", false, "accept passwords over plain HTTP, for a proxy in front that does TLS; anybody on the way can read them")
	flags.StringSliceVar(&f.httpExempt, "http-exempt", nil, "never block this `NETWORK` for wrong passwords; several are separated by commas")
	sizeVar(flags, &f.HTTP.Rate, "http-rate", 0, "bytes a second each way for all of HTTP together, such as 50MB (0: no limit)")
	flags.IntVar(&f.HTTP.MaxConnsPerSource, "http-conns-per-source", 0, "at most `N` HTTP connections at a time to a port from one address (IPv6: from one /64); 0: half of all")
	flags.StringSliceVar(&f.httpProxy, "http-proxy", nil, "expect a PROXY header (version 1 or 2) from proxies in `NETWORK`, and take the client's address from it; unix: from all who connect by a unix socket from systemd")
}

func (f *serveFlags) parseHTTP() (err error) {
	if f.HTTP.Exempt, err = parseNetworks("http-exempt", f.httpExempt); err != nil {
		return err
	}
	networks := slices.DeleteFunc(slices.Clone(f.httpProxy), func(w string) bool { return w == unixProxies })
	f.HTTP.UnixProxies = len(networks) < len(f.httpProxy)
	f.HTTP.Proxies, err = parseNetworks("http-proxy", networks)
	return err
}
