package config

import (
	"fmt"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/server/notify"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/tftp"
)

// table returns all settings, grouped in the order of "haul help serve".
func (s *Settings) table() []*Setting {
	return append(append(append(append(s.tftp(), s.sftp()...), s.http()...), append(s.files(), s.boot()...)...), s.server()...)
}

func (s *Settings) tftp() []*Setting {
	c := &s.config.TFTP
	return []*Setting{
		{Key: "tftp.listen", Flag: "tftp", Group: "TFTP", value: textsValue(&c.Listen), Help: "serve TFTP on `ADDRESS`, HOST:PORT or :PORT; several are separated by commas"},
		{Key: "tftp.single_port", Flag: "single-port", Group: "TFTP", value: boolValue(&c.SinglePort), Help: "answer from the port that the request came to, for NAT and containers"},
		{Key: "tftp.ports", Flag: "ports", Group: "TFTP", value: portsValue(&c.FirstPort, &c.LastPort), Help: "use ports `FIRST-LAST` for transfers, for firewalls (default: the kernel chooses)"},
		{
			Key: "tftp.mtu", Flag: "mtu", Group: "TFTP", value: mtuValue(&c.MTU), words: strings.Fields("auto none 1500"),
			Help: "send IP packets of at most `N` bytes; auto asks the kernel, none lets clients choose",
		},
		{Key: "tftp.blksize", Flag: "blksize", Group: "TFTP", value: intValue(&c.BlockSize), Help: "agree to TFTP blocks of at most `N` bytes (0: any)"},
		{Key: "tftp.windowsize", Flag: "windowsize", Group: "TFTP", value: intValue(&c.WindowSize), Help: "agree to TFTP windows of at most `N` blocks"},
		{Key: "tftp.refuse", Flag: "refuse", Group: "TFTP", value: refusalsValue(&c.Refuse), Help: "do not agree to options, as `OPTIONS [NETWORKS]`: 'tsize,blksize 10.1.0.0/16', or tsize alone for all clients; repeat for more"},
		{Key: "tftp.rollover", Flag: "rollover", Group: "TFTP", value: rolloversValue(&c.Rollover), Help: "continue with block 0 or 1 after block 65535 if a client does not ask for either, as `0|1 [NETWORKS]`: '1 10.2.0.0/16'; repeat for more, the first that has a client counts"},
		{Key: "tftp.no_offload", Flag: "no-offload", Group: "TFTP", value: boolValue(&c.NoOffload), Help: "do not let the kernel split and join datagrams"},
		{Key: "tftp.upload_parents", Flag: "upload-parents", Group: "TFTP", value: boolValue(&c.UploadParents), Help: "make missing directories for uploads over TFTP, as uploads over HTTP do"},
		{Key: "tftp.max_transfers", Flag: "max-transfers", Group: "limits", value: intValue(&c.MaxTransfers), Help: "at most `N` TFTP transfers at a time"},
		{Key: "tftp.max_per_client", Flag: "max-per-client", Group: "limits", value: intValue(&c.MaxPerClient), Help: "at most `N` TFTP transfers at a time for one address (0: no limit for single addresses)"},
		{
			Key: "tftp.requests_per_second", Flag: "rate", Group: "limits", value: intValue(&c.Rate),
			Help: fmt.Sprintf("at most `N` TFTP requests a second from one address (0: %d, localhost exempt; -1: no limit)", tftp.Defaults().Rate),
		},
		{Key: "tftp.bandwidth", Flag: "tftp-bandwidth", Group: "limits", value: sizeValue(&c.Bandwidth), Help: "bytes a second each way for all TFTP transfers together, such as 50MB (0: no limit)"},
		{Key: "tftp.bandwidth_per_client", Flag: "tftp-bandwidth-per-client", Group: "limits", value: sizeValue(&c.BandwidthPerClient), Help: "bytes a second each way for the TFTP transfers of one address, such as 5MB (0: no limit)"},
		{Key: "tftp.loops", Flag: "loops", Group: "limits", value: intValue(&c.Loops), Help: fmt.Sprintf("at most `N` event loops for one TFTP address, up to %d (0: one for two CPUs)", settings.MaxLoops)},
		{Key: "tftp.memory", Flag: "memory", Group: "limits", value: sizeValue(&c.Memory), Help: "use at most this much memory for the buffers of all TFTP transfers"},
		{
			Key: "tftp.trace", Flag: "trace", Group: "ops", value: traceValue(&s.config.Trace), without: AllPeers,
			Help: "show packets; --trace=`ADDRESS` only those of an address or a network",
		},
		{Key: "tftp.pcap", Flag: "pcap", Group: "ops", value: textValue(&s.config.Trace.Pcap), Help: "write packets to `FILE` as pcapng, for Wireshark: all, or those of --trace=ADDRESS"},
		{Key: "tftp.trace_hex", Flag: "trace-hex", Group: "ops", value: intValue(&s.config.Trace.HexBytes), Help: "with --trace, show `N` bytes of each packet in hexadecimal (65507: all)"},
	}
}

func (s *Settings) sftp() []*Setting {
	c := &s.config.SFTP
	return []*Setting{
		{Key: "sftp.listen", Flag: "sftp", Group: "SFTP", value: textsValue(&c.Listen), Help: "serve SFTP on `ADDRESS`, such as :2022"},
		{Key: "sftp.users", Flag: "users", Group: "SFTP", value: textValue(&c.Users), Help: "let the users in `FILE` log in by SFTP (default: " + settings.UsersPlaces + ", if it exists)"},
		{
			Key: "sftp.host_keys", Flag: "host-keys", Group: "SFTP", value: textValue(&c.HostKeys),
			Help: "keep SSH host keys in `DIR` (default: " + settings.HostKeysPlaces + "); none: a key for this run only, in memory",
		},
		{Key: "sftp.in_place", Flag: "sftp-in-place", Group: "SFTP", value: boolValue(&c.InPlace), Help: "show an upload under its name from its first byte on, so that clients can resume it (reput)"},
		{Key: "sftp.special_bits", Flag: "sftp-special-bits", Group: "SFTP", value: boolValue(&c.SpecialBits), Help: "let clients set and clear setuid, setgid and sticky bits (by default directories keep theirs, and files lose them)"},
		{Key: "sftp.rate", Flag: "sftp-rate", Group: "limits", value: sizeValue(&c.Rate), Help: "bytes a second each way for all SFTP users together, such as 50MB (0: no limit)"},
		{Key: "sftp.conns", Flag: "sftp-conns", Group: "limits", value: intValue(&c.MaxConns), Help: "at most `N` SSH connections at a time"},
		{Key: "sftp.conns_per_source", Flag: "sftp-conns-per-source", Group: "limits", value: intValue(&c.MaxConnsPerSource), Help: "at most `N` SSH connections at a time from one address (IPv6: from one /64)"},
		{
			Key: "sftp.proxy", Flag: "sftp-proxy", Group: "SFTP", value: proxiesValue(&c.Proxies, &c.UnixProxies),
			Help: "expect a PROXY header (version 1 or 2) from proxies in `NETWORK`, and take the client's address from it; unix: from all who connect by a unix socket from systemd",
		},
		{Key: "sftp.exempt", Flag: "sftp-exempt", Group: "limits", value: networksValue(&c.Exempt), Help: "never block this `NETWORK` for wrong passwords, nor limit its connections; several are separated by commas"},
	}
}

func (s *Settings) http() []*Setting {
	c := &s.config.HTTP
	return []*Setting{
		{Key: "http.listen", Flag: "http", Group: "HTTP", value: textsValue(&c.Listen), Help: "serve HTTP on `ADDRESS`, such as :8080"},
		{Key: "https.listen", Flag: "https", Group: "HTTP", value: textsValue(&c.ListenTLS), Help: "serve HTTPS on `ADDRESS`, such as :8443; self-signed without --cert"},
		{Key: "https.cert", Flag: "cert", Group: "HTTP", value: textValue(&c.Cert), Help: "certificate for HTTPS, with its intermediates: a PEM `FILE`, read again when it changes"},
		{Key: "https.key", Flag: "key", Group: "HTTP", value: textValue(&c.Key), Help: "private key of the certificate: a PEM `FILE` (default: that of --cert)"},
		{Key: "http.listing", Flag: "listing", Group: "HTTP", value: boolValue(&c.Listing), Help: "list directories over HTTP, as HTML or JSON"},
		{
			Key: "http.index", Flag: "index", Group: "HTTP", value: textValue(&c.Index),
			Help: "serve the file `NAME` for a directory, if there is one; empty: none; with --listing, ?list lists the directory anyway",
		},
		{
			Key: "http.precompressed", Flag: "precompressed", Group: "HTTP", value: boolValue(&c.Precompressed),
			Help: "send NAME.br, NAME.zst or NAME.gz for NAME to clients that accept it; a user who may write these can then change what others get for NAME",
		},
		{Key: "http.users", Flag: "http-auth", Group: "HTTP", value: textValue(&c.Users), Help: "admit only the users in `FILE` over HTTP, by password (default: everybody, without login)"},
		{
			Key: "http.plain_passwords", Flag: "http-plain-auth", Group: "HTTP", value: boolValue(&c.PlainPasswords),
			Help: "accept passwords over plain HTTP, for a proxy in front that does TLS; anybody on the way can read them",
		},
		{Key: "http.hosts", Flag: "http-host", Group: "HTTP", value: textsValue(&c.Hosts), Help: "accept this `NAME` of the server too, in uploads from pages and, on localhost, in all requests; several are separated by commas"},
		{
			Key: "http.proxy", Flag: "http-proxy", Group: "HTTP", value: proxiesValue(&c.Proxies, &c.UnixProxies),
			Help: "expect a PROXY header (version 1 or 2) from proxies in `NETWORK`, and take the client's address from it; unix: from all who connect by a unix socket from systemd",
		},
		{Key: "http.exempt", Flag: "http-exempt", Group: "limits", value: networksValue(&c.Exempt), Help: "never block this `NETWORK` for wrong passwords; several are separated by commas"},
		{Key: "http.rate", Flag: "http-rate", Group: "limits", value: sizeValue(&c.Rate), Help: "bytes a second each way for all of HTTP together, such as 50MB (0: no limit)"},
		{
			Key: "http.rate_per_source", Flag: "http-rate-per-source", Group: "limits", value: sizeValue(&c.RatePerSource),
			Help: "bytes a second each way for one address over HTTP without users (IPv6: for one /64), such as 5MB (0: no limit)",
		},
		{
			Key: "http.conns_per_source", Flag: "http-conns-per-source", Group: "limits", value: intValue(&c.MaxConnsPerSource),
			Help: "at most `N` HTTP connections at a time to a port from one address (IPv6: from one /64); 0: half of all",
		},
	}
}

func (s *Settings) files() []*Setting {
	c := &s.config.Files
	return []*Setting{
		{Key: "files.root", Flag: "root", Group: "files", value: rootsValue(&c.Roots), Help: "give some clients another directory or URL, as `CLIENT=DIR`; repeat for more"},
		{Key: "files.per_client", Flag: "per-client", Group: "files", value: perClientValue(&c.PerClient), words: strings.Fields("ip mac"), Help: "give each client a directory below DIR: `BY` is ip or mac"},
		{Key: "files.shared", Flag: "shared", Group: "files", value: boolValue(&c.Shared), Help: "with --per-client, serve from DIR what is missing there"},
		{Key: "files.map", Flag: "map", Group: "files", value: textValue(&c.Map), Help: "rewrite names by the rules in `FILE`, as tftpd-hpa -m does"},
		{Key: "files.fold_case", Flag: "fold-case", Group: "files", value: boolValue(&c.FoldCase), Help: "ignore upper and lower case in names"},
		{Key: "files.hidden", Flag: "hidden", Group: "files", value: boolValue(&c.Hidden), Help: "serve and accept names that begin with a dot too; users who log in always may use them"},
		{Key: "files.access", Flag: "access", Group: "files", value: rulesValue(&c.Access), Help: "allow or deny clients some files by this `RULE`; repeat for more"},
		{
			Key: "files.upload", Flag: "upload", Group: "files", value: policyValue(&c.Upload), words: strings.Fields("create overwrite unique"),
			Help: "let clients write files: `MODE` is create (new files only), overwrite (replace files too) or unique (add a time stamp to each name)",
		},
		{Key: "files.upload_dir", Flag: "upload-dir", Group: "files", value: textValue(&c.UploadDir), Help: "write uploads to this `DIR`, and serve nothing from it"},
		{Key: "files.max_upload", Flag: "max-upload", Group: "limits", value: sizeValue(&c.MaxUpload), Help: "largest upload over TFTP and HTTP, of users too"},
	}
}

func (s *Settings) boot() []*Setting {
	c := &s.config.Boot
	return []*Setting{
		{Key: "boot.answer", Flag: "boot", Group: "boot", value: boolValue(&c.Answer), Help: "answer machines that boot from the network, beside their DHCP server (ProxyDHCP)"},
		{Key: "boot.interfaces", Flag: "interface", Group: "boot", value: textsValue(&c.Interfaces), Help: "answer boot clients on this `INTERFACE` only; several are separated by commas"},
		{Key: "boot.files", Flag: "boot-file", Group: "boot", value: bootFilesValue(&c.Files), Help: "give machines of an architecture this boot file, as `ARCH=NAME`: x64=shimx64.efi; several are separated by commas"},
		{Key: "boot.hosts", Flag: "boot-host", Group: "boot", value: bootHostsValue(&c.Hosts), Help: "a rule for one machine, as `MAC=FILE`, or MAC=ignore, MAC=direct, MAC=redirect; several are separated by commas"},
		{Key: "boot.known_only", Flag: "boot-known", Group: "boot", value: boolValue(&c.KnownOnly), Help: "answer only the machines of --boot-host"},
		{Key: "boot.relays", Flag: "boot-relay", Group: "boot", value: networksValue(&c.Relays), Help: "answer DHCP relay agents in this `NETWORK`, and the clients behind them; several are separated by commas"},
		{Key: "boot.address", Flag: "boot-address", Group: "boot", value: addrValue(&c.Address), Help: "send boot clients to this `ADDRESS` (default: that of the interface)"},
		{Key: "boot.default", Flag: "boot-default", Group: "boot", value: textValue(&c.Default), Help: "boot this `ENTRY` of the menu if nobody chooses: a file of loader/entries without .conf, or a directory (default: the machine's disk)"},
		{Key: "boot.timeout", Flag: "boot-timeout", Group: "boot", value: timeValue(&c.Timeout), Help: "show the menu for this `TIME` (0: until somebody chooses)"},
		{Key: "boot.loader_dir", Flag: "boot-loaders", Group: "boot", value: textValue(&c.LoaderDir), Help: "find boot files that DIR does not have in this `DIR`; empty: nowhere"},
	}
}

func (s *Settings) server() []*Setting {
	c := &s.config
	return []*Setting{
		{Key: "dirs", value: textsValue(&c.Dirs), Help: "serve these directories, or URLs of directories on other machines (https://, sftp://, s3://)"},
		{Key: "source.redirect_to", Flag: "redirect-to", Group: "files", value: textsValue(&c.RedirectTo), Help: "let web servers whose files are served redirect to this `HOST` or HOST:PORT too; several are separated by commas"},
		{Key: "cache.dir", Flag: "cache", Group: "files", value: textValue(&c.Cache.Dir), Help: "keep what was read from other machines in this `DIR`, which holds nothing else"},
		{Key: "cache.size", Flag: "cache-size", Group: "files", value: sizeValue(&c.Cache.Size), Help: "take at most this much of the disk for --cache, such as 20GB"},
		{Key: "cache.fresh", Flag: "cache-fresh", Group: "files", value: timeValue(&c.Cache.Fresh), Help: "answer from --cache for this `TIME` without asking whether a file has changed (0: ask each time)"},
		{Key: "cache.stale", Flag: "cache-stale", Group: "files", value: timeValue(&c.Cache.Stale), Help: "answer from --cache for this `TIME` more while the other machine cannot be reached (0: do not)"},
		{Key: "allow", Flag: "allow", Group: "limits", value: networksValue(&c.Allow), Help: "serve only this `NETWORK`; several are separated by commas"},
		{Key: "deny", Flag: "deny", Group: "limits", value: networksValue(&c.Deny), Help: "do not serve this `NETWORK`; several are separated by commas"},
		{Key: "no_fsync", Flag: "no-fsync", Group: "files", value: boolValue(&c.NoFsync), Help: "do not wait for the disk before an upload appears: faster, but a crash of the machine or a power cut may lose it, or part of its content"},
		{Key: "tcp.congestion", Flag: "tcp-congestion", Group: "ops", value: textValue(&c.Congestion), Help: "congestion control of TCP for SFTP and HTTP: a `NAME` such as bbr (default: the system's; Linux only)"},
		{Key: "user", Flag: "user", Group: "ops", value: textValue(&c.User), Help: "become this `USER` once the ports are open: NAME, NAME:GROUP or UID:GID"},
		{Key: "grace", Flag: "grace", Group: "ops", value: timeValue(&c.Grace), Help: "give transfers this `TIME` to finish after the first signal; calls to a disk that hangs get 20s more"},
		{Key: "restartable", Flag: "restartable", Group: "ops", value: boolValue(&c.Restartable), Help: "allow restarts without downtime, by SIGUSR2"},
		{
			Key: "metrics.listen", Flag: "metrics", Group: "ops", value: textValue(&c.Metrics),
			Help: "serve Prometheus metrics on `ADDRESS` over HTTP; all who can connect can read them, so use 127.0.0.1:PORT",
		},
		{
			Key: "status.listen", Flag: "status", Group: "ops", value: textValue(&c.Status.Listen),
			Help: "serve a page and JSON on what the server does on `ADDRESS`, such as 127.0.0.1:9070; any other than this machine's own takes --status-users and --status-cert",
		},
		{Key: "status.users", Flag: "status-users", Group: "ops", value: textValue(&c.Status.Users), Help: "show the status page to the users in `FILE` only, by password"},
		{Key: "status.cert", Flag: "status-cert", Group: "ops", value: textValue(&c.Status.Cert), Help: "serve the status page over TLS with the certificate in this PEM `FILE`"},
		{Key: "status.key", Flag: "status-key", Group: "ops", value: textValue(&c.Status.Key), Help: "private key of that certificate: a PEM `FILE` (default: that of --status-cert)"},
		{Key: "status.hosts", Flag: "status-host", Group: "ops", value: textsValue(&c.Status.Hosts), Help: "let browsers reach the status page by this `NAME` without a login, besides localhost; several are separated by commas"},
		{Key: "status.pprof", Flag: "status-pprof", Group: "ops", value: boolValue(&c.Status.Profiles), Help: "show profiles of the process, too, at /debug/pprof/ of the status page"},
		{Key: "log.format", Flag: "log-format", Group: "ops", value: textValue(&c.LogFormat), words: strings.Fields("text json"), Help: "log in this `FORMAT`: text or json"},
		{Key: "log.audit", Flag: "audit", Group: "ops", value: textValue(&c.Notify.Audit), Help: "log transfers, changes and logins to `FILE`, as JSON"},
		{Key: "log.audit_hash", Flag: "audit-hash", Group: "ops", value: textValue(&c.Notify.AuditHash), words: []string{notify.SHA256}, Help: "hash uploads for --audit and --hook: `HASH` is sha256"},
		{
			Key: hookTable, Flag: "hook", Group: "ops", value: hooksValue(&c.Notify.Hooks),
			Help: "run a program or post to a URL by this `HOOK`; repeat it",
		},
		{Key: "log.quiet", Flag: "quiet", letter: "q", Group: "ops", value: boolValue(&c.Quiet), Help: "log failures only"},
	}
}
