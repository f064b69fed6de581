package main

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/site"
	"github.com/haul-project/haul/tcp"
)

// httpFlags are those flags of "haul serve" that HTTP alone has.
type httpFlags struct {
	cert, key     string
	listing       bool
	index         string
	precompressed bool
	auth          string
	plainAuth     bool
	exempt        []string
	proxy         []string
	perSource     int // connections
	rate          console.ByteSize

	exempted, proxies []netip.Prefix // of exempt and proxy
	unixProxies       bool           // of proxy
}

// unixProxy is, in --http-proxy, who connects by a unix socket.
const unixProxy = "unix"

// httpOnly are flags that mean nothing without HTTP.
var httpOnly = strings.Fields("cert key listing index precompressed http-auth http-plain-auth http-exempt http-rate http-conns-per-source http-proxy")

// fileRules are flags about files that TFTP has in common with HTTP without users.
var fileRules = strings.Fields("root per-client shared map fold-case hidden access upload upload-dir")

func (f *httpFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.cert, "cert", "", "`FILE` with the certificate for HTTPS and its intermediates (PEM); changes are noticed")
	flags.StringVar(&f.key, "key", "", "`FILE` with its private key (PEM); the default is that of --cert")
	flags.BoolVar(&f.listing, "listing", false, "show the entries of directories by HTTP, as HTML or JSON")
	flags.StringVar(&f.index, "index", "index.html", "`NAME` of the file that is served for a directory by HTTP, if it is there; empty means none; with --listing, ?list shows the entries all the same")
	flags.BoolVar(&f.precompressed, "precompressed", false, "send NAME.br, NAME.zst or NAME.gz for NAME by HTTP, to clients that like it; who may write in DIR, as by SFTP, can then change what NAME yields")
	flags.StringVar(&f.auth, "http-auth", "", "users `FILE` of those who may log in by HTTP with a password: see haul user --help (default: no login)")
	flags.BoolVar(&f.plainAuth, "http-plain-auth", false, "take passwords by --http, too, where all on the way can read them: for a proxy in front that does TLS")
	flags.StringSliceVar(&f.exempt, "http-exempt", nil, "`NETWORK` that is never locked out for wrong passwords; several are separated by commas")
	flags.Var(&f.rate, "http-rate", "bytes a second each way for all of HTTP together, such as 50MB (0: no limit)")
	flags.IntVar(&f.perSource, "http-conns-per-source", 0, "at most `N` HTTP connections at a time to a port from one address (IPv6: from one /64); 0: half of all")
	flags.StringSliceVar(&f.proxy, "http-proxy", nil, "`NETWORK` of proxies that begin each connection with a PROXY header (version 1 or 2), which says for whom it is; addresses, limits and the log go by that; unix is all who connect by a unix socket from systemd")
}

func (f *serveFlags) servesHTTP() bool { return anyAddr(f.http) || anyAddr(f.https) }

// servesAnybody reports whether files are served to who does not log in, by the
// rules that go by address.
func (f *serveFlags) servesAnybody() bool {
	return f.servesTFTP() || f.servesHTTP() && f.web.auth == ""
}

// checkHTTP checks what can be checked without opening anything.
func (f *serveFlags) checkHTTP() error {
	for _, p := range []struct {
		flag  string
		addrs []string
	}{{"http", f.http}, {"https", f.https}} {
		if err := checkAddrs(p.flag, "tcp", p.addrs); err != nil && anyAddr(p.addrs) {
			return err
		}
	}
	switch {
	case f.web.perSource < 0 || f.web.perSource > mostConns:
		return usagef("--http-conns-per-source %d: it is 0 to %d", f.web.perSource, mostConns)
	case anyAddr(f.https) && f.web.cert == "":
		return usagef("--https takes --cert FILE, and --key FILE if the key is not in it")
	case f.web.cert != "" && !anyAddr(f.https):
		return usagef("--cert is for HTTPS, which is not served; add --https :443")
	case f.web.key != "" && f.web.cert == "":
		return usagef("--key goes with --cert")
	case strings.ContainsAny(f.web.index, `/\`) || f.web.index == "." || f.web.index == "..":
		return usagef("--index takes the name of a file in each directory, such as index.html, and no path")
	case f.web.auth != "" && anyAddr(f.http) && !f.web.plainAuth:
		return usagef("--http-auth with --http: all on the way could read the passwords; serve by --https alone, or add --http-plain-auth if a proxy in front does TLS")
	case f.web.plainAuth && f.web.auth == "":
		return usagef("--http-plain-auth goes with --http-auth: without it nobody is asked for a password")
	case len(f.web.exempt) > 0 && f.web.auth == "":
		return usagef("--http-exempt goes with --http-auth: without it nobody is asked for a password")
	case f.upload == site.UploadUnique.String() && !f.servesTFTP():
		return usagef("--upload unique is for TFTP, which is not served: by HTTP and SFTP, clients choose the names of files; choose create or overwrite, or add --tftp :69")
	}
	var err error
	if f.web.exempted, err = parseNetworks("http-exempt", f.web.exempt); err != nil {
		return err
	}
	networks := slices.DeleteFunc(slices.Clone(f.web.proxy), func(w string) bool { return w == unixProxy })
	f.web.unixProxies = len(networks) < len(f.web.proxy)
	if f.web.proxies, err = parseNetworks("http-proxy", networks); err != nil {
		return err
	}
	return f.checkPrecompressed()
}

// pair returns the files of the certificate.
func (f *httpFlags) pair() tcp.Pair {
	p := tcp.Pair{Cert: f.cert, Key: f.key}
	if p.Key == "" {
		p.Key = p.Cert
	}
	return p
}

// reads returns the directories of the certificate, in which a new one will be.
func (f *httpFlags) reads() []string {
	if f.cert == "" {
		return nil
	}
	var dirs []string
	for _, file := range []string{f.pair().Cert, f.pair().Key} {
		dirs = append(dirs, filepath.Dir(file))
		if real, err := filepath.EvalSymlinks(file); err == nil { // as certbot has it
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
