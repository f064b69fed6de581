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
