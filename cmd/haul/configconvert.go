package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/config"
	"github.com/haul-project/haul/cmd/haul/internal/server/config/convert"
	"github.com/haul-project/haul/cmd/haul/internal/system/smallfile"
)

const configConvertHelp = `Print a configuration file made from a command line, or from that of another server.

The words from "serve" on are a command line of "haul serve". --tftpd-hpa reads the file by
which Debian starts tftpd-hpa, without a shell; --dnsmasq reads the lines of dnsmasq
about TFTP. Whatever haul cannot do as the other server did is a comment with the
reason: read these before you use the file.`

const configConvertExamples = `  haul config convert serve --tftp :69 --upload create /srv/tftp
  haul config convert --tftpd-hpa /etc/default/tftpd-hpa > /etc/haul/haul.toml
  haul config convert --dnsmasq /etc/dnsmasq.conf`

func newConfigConvert() *cobra.Command {
	var tftpd, dnsmasq string
	cmd := &cobra.Command{
		Use:         "convert [serve ...]",
		Short:       "Print a configuration file made from other settings",
		Long:        configConvertHelp,
		Example:     configConvertExamples,
		Annotations: commandline.More("", "configuration"),
		RunE: func(cmd *cobra.Command, args []string) error {
			given := 0
			for _, one := range []bool{len(args) > 0, tftpd != "", dnsmasq != ""} {
				if one {
					given++
				}
			}
			switch {
			case given != 1:
				return failure.Usage.Errorf("name one thing to convert: --tftpd-hpa FILE, --dnsmasq FILE, or a command line: serve ...")
			case tftpd != "":
				return convertFile(cmd, tftpd, convert.TFTPD)
			case dnsmasq != "":
				return convertFile(cmd, dnsmasq, convert.Dnsmasq)
			}
			return convertWords(cmd, args)
		},
	}
	cmd.Flags().SetInterspersed(false) // flags after "serve" belong to serve
	cmd.Flags().StringVar(&tftpd, "tftpd-hpa", "", "convert the variables of tftpd-hpa in `FILE`")
	cmd.Flags().StringVar(&dnsmasq, "dnsmasq", "", "convert what dnsmasq's `FILE` says about TFTP")
	return cmd
}

// convertFile converts a file with the given converter, and prints the result.
func convertFile(cmd *cobra.Command, name string, converter func(file, text string) (string, error)) error {
	text, err := smallfile.Read(name, convert.MaxFile)
	if err != nil {
		return failure.Local.Errorf("read %s: %w", name, console.WithoutPath(err))
	}
	made, err := converter(name, string(text))
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write([]byte(made))
	return failure.Local.Wrap(err)
}

// convertWords prints a configuration file with the same effect as a command line of "haul serve".
func convertWords(cmd *cobra.Command, words []string) error {
	if filepath.Base(words[0]) == "haul" {
		words = words[1:]
	}
	if len(words) == 0 || words[0] != "serve" {
		return failure.Usage.Errorf("the command line is none of haul serve; an example: haul config convert serve --tftp :69 DIR")
	}
	var f serveFlags
	serve, err := f.parse(words[1:])
	if err != nil {
		return err
	}
	_, err = f.settings.Resolve(config.Sources{
		Dirs: serve.Flags().Args(), Given: serve.Flags().Changed, File: f.file,
		// Ignore the environment variables of this process: those of the server may differ.
		Lookup: func(string) (string, bool) { return "", false },
	})
	if err != nil {
		return mistakes(err)
	}
	return failure.Local.Wrap(f.settings.WriteGiven(cmd.OutOrStdout()))
}
