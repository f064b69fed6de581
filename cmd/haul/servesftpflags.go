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
	flags.StringSliceVar(&f.SFTP.Listen, "sftp", nil, "`ADDRESS` for SFTP, such as :2022; TFTP is then served only with --tftp")
	flags.StringVar(&f.SFTP.Users, "users", "", "users `FILE` of those who may log in by SFTP: see haul user --help (default: "+serve.UsersPlaces+", if it exists)")
	flags.StringVar(&f.SFTP.HostKeys, "host-keys", "", "`DIR` of SSH host keys; one is made if there is none (default: "+serve.HostKeysPlaces+"); none: a key for this run only, in memory")
	sizeVar(flags, &f.SFTP.Rate, "sftp-rate", 0, "bytes a second each way for all SFTP users together, such as 50MB (0: no limit)")
	flags.IntVar(&f.SFTP.MaxConns, "sftp-conns", f.SFTP.MaxConns, "at most `N` SSH connections at a time")
	flags.IntVar(&f.SFTP.MaxConnsPerSource, "sftp-conns-per-source", f.SFTP.MaxConnsPerSource, "at most `N` SSH connections at a time from one address (IPv6: from one /64)")
	flags.BoolVar(&f.SFTP.InPlace, "sftp-in-place", false, "show an upload under its name from its first byte on; then clients can resume one that was cut off (reput)")
	flags.BoolVar(&f.SFTP.SpecialBits, "sftp-special-bits", false, "let clients set and clear setuid, setgid and sticky bits (by default directories keep theirs, and files lose them)")
	flags.StringSliceVar(&f.sftpExempt, "sftp-exempt", nil, "`NETWORK` that is never locked out and has no limit for one address; several are separated by commas")
}

func (f *serveFlags) parseSFTP() (err error) {
	f.SFTP.Exempt, err = parseNetworks("sftp-exempt", f.sftpExempt)
	return err
}
