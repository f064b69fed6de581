package main

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/tftp/doctor"
)

const doctorHelp = `Examine a TFTP server as many clients would, and explain which rules it breaks.

haul fetches the file as curl, tftp-hpa, busybox, atftp, U-Boot, barebox, GRUB, iPXE,
UEFI firmware, Raspberry Pi, Windows bootmgr and a plain ROM would. It also sends
malformed packets, loses packets, repeats requests and asks for names outside the
directory. Any server will do, and nothing is written to it without --upload. A file
of some 100 KB shows most; some rules need an empty one, others one of more than 512
KiB.

Verdicts: ok; skipped (the notes say why); warning (works, but something is wrong);
fails (this client does not get its file, or worse). The exit code is 0 without
failures, with --strict also without warnings, and 1 otherwise. If the server answers
no plain request, it is that of get.`

const doctorExamples = `  haul doctor tftp://192.0.2.1/boot/kernel
  haul doctor --strict tftp://192.0.2.1:6969/empty
  haul doctor --json tftp://192.0.2.1/boot/kernel | jq '.broken[].name'
  haul doctor --max-bytes 40000000 --timeout 1m tftp://192.0.2.1/image
  haul doctor --upload doctor.tmp tftp://192.0.2.1/boot/kernel`

// errIll reports that the examined server has faults.
var errIll = errors.New("the server breaks rules")

func newDoctor() *cobra.Command {
	var c doctor.Config
	var asJSON, strict bool
	cmd := &cobra.Command{
		Use:         "doctor URL",
		Short:       "Examine a server as many clients would",
		Long:        doctorHelp,
		Example:     doctorExamples,
		Args:        commandline.Args(cobra.ExactArgs(1)),
		Annotations: commandline.More("", "json", "sizes"),
		RunE: func(cmd *cobra.Command, urls []string) error {
			var err error
			if c.Target, err = remote.ParseTFTP(urls[0]); err != nil {
				return err
			}
			switch { // c would replace these values by its defaults, so refuse them here
			case c.Timeout <= 0:
				return failure.Usage.Errorf("--timeout %v: must be above 0", c.Timeout)
			case c.MaxBytes <= 0:
				return failure.Usage.Errorf("--max-bytes %s: must be above 0", console.FormatSize(c.MaxBytes))
			case c.MTU != 0 && (c.MTU < settings.MinMTU || c.MTU > settings.MaxMTU):
				return failure.Usage.Errorf("--mtu %d: it is 0, or %d to %d bytes", c.MTU, settings.MinMTU, settings.MaxMTU)
			}
			if err := c.Check(); err != nil {
				return failure.Usage.Wrap(err)
			}
			d, err := doctor.Examine(cmd.Context(), c)
			if err != nil {
				return err
			}
			if asJSON {
				out := json.NewEncoder(cmd.OutOrStdout())
				out.SetIndent("", "  ")
				err = out.Encode(d)
			} else {
				err = d.WriteText(cmd.OutOrStdout())
			}
			if err != nil {
				return failure.Local.Wrap(err)
			}
			if d.Verdict == doctor.Failed || strict && d.Verdict != doctor.OK {
				return errIll
			}
			return nil
		},
	}
	cmd.AddCommand(newDoctorPXE())
	flags := cmd.Flags()
	flags.DurationVar(&c.Timeout, "timeout", doctor.DefaultTimeout, "give each client this `TIME`; the whole run takes at most 12 times that")
	sizeVar(flags, &c.MaxBytes, "max-bytes", doctor.DefaultMaxBytes, "bytes of the file that each client fetches; haul ends a longer transfer with ERROR 0")
	flags.IntVar(&c.MTU, "mtu", 0, "assume an MTU of `N` bytes on the path (0: that of the interface)")
	flags.StringVar(&c.Upload, "upload", "", "also upload a small file of this `NAME`, and leave it there")
	flags.BoolVar(&asJSON, "json", false, "print one JSON document")
	flags.BoolVar(&strict, "strict", false, "exit with 1 on warnings too")
	return cmd
}
