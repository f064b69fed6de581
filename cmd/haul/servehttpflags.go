package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// httpOnly are flags that mean nothing without HTTP.
var httpOnly = strings.Fields("cert key listing index precompressed http-auth http-plain-auth http-exempt http-rate http-conns-per-source http-proxy")

// unixProxies stands, in --http-proxy, for all who connect by a unix socket.
const unixProxies = "unix"

// addHTTP adds the flags of HTTP and HTTPS.
func (f *serveFlags) addHTTP(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.HTTP.Listen, "http", nil, "`ADDRESS` for HTTP, such as :8080; TFTP is then served only with --tftp")
	flags.StringSliceVar(&f.HTTP.ListenTLS, "https", nil, "`ADDRESS` for HTTPS, such as :8443; needs --cert")
	flags.StringVar(&f.HTTP.Cert, "cert", "", "`FILE` with the certificate for HTTPS and its intermediates (PEM); changes are noticed")
	flags.StringVar(&f.HTTP.Key, "key", "", "`FILE` with its private key (PEM); the default is that of --cert")
	flags.BoolVar(&f.HTTP.Listing, "listing", false, "show the entries of directories by HTTP, as HTML or JSON")
	flags.StringVar(&f.HTTP.Index, "index", f.HTTP.Index, "`NAME` of the file that is served for a directory by HTTP, if it is there; empty means none; with --listing, ?list shows the entries all the same")
	flags.BoolVar(&f.HTTP.Precompressed, "precompressed", false, "send NAME.br, NAME.zst or NAME.gz for NAME by HTTP, to clients that take it; users who write in DIR, as by SFTP, can then change what others get for NAME")
	flags.StringVar(&f.HTTP.Users, "http-auth", "", "users `FILE` of those who may log in by HTTP with a password: see haul user --help (default: no login)")
	flags.BoolVar(&f.HTTP.PlainPasswords, "http-plain-auth", false, "take passwords by --http, too, where all on the way can read them: for a proxy in front that does TLS")
	flags.StringSliceVar(&f.httpExempt, "http-exempt", nil, "`NETWORK` that is never locked out for wrong passwords; several are separated by commas")
	sizeVar(flags, &f.HTTP.Rate, "http-rate", 0, "bytes a second each way for all of HTTP together, such as 50MB (0: no limit)")
	flags.IntVar(&f.HTTP.MaxConnsPerSource, "http-conns-per-source", 0, "at most `N` HTTP connections at a time to a port from one address (IPv6: from one /64); 0: half of all")
	flags.StringSliceVar(&f.httpProxy, "http-proxy", nil, "`NETWORK` of proxies that begin each connection with a PROXY header (version 1 or 2), which says for whom it is; addresses, limits and the log go by that; unix is all who connect by a unix socket from systemd")
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
