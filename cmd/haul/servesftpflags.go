package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/serve"
)

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
