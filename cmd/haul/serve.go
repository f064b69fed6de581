package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/config"
	"github.com/haul-project/haul/cmd/haul/internal/server/serve"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
)

const serveHelp = `Serve the files of a directory over TFTP, SFTP, HTTP or HTTPS.

haul serves the protocols of --tftp, --sftp, --http and --https, and without any of them
TFTP and HTTP, until a signal ends it. Of several DIRs, the first that has a file serves
it; uploads go to the first. DIR may be a URL of another machine ("haul help serve
files"). --config reads settings from a file.

SFTP users log in ("haul user"). TFTP and HTTP have no users, unless --http-auth names
them: everybody may read, and write only with --upload. Nothing outside DIR can be
read or written. An upload appears under its name when it is complete.`

const serveExamples = `  haul serve /srv/tftp                       TFTP and HTTP on ports 69 and 80, or 6969 and 8080
  haul serve . --tftp 127.0.0.1:6969         on one address
  haul serve /srv/tftp --upload create       clients may add files, not replace any
  haul serve /srv/tftp --upload unique --upload-dir /srv/logs
                                             uploads get a time stamp, and nobody can read them
  haul serve /srv/tftp --single-port         in a container, or behind NAT
  haul serve /srv/tftp --trace=192.0.2.7     show the packets of one client
  haul serve . --sftp :2022 --upload overwrite
                                             for one user, with a password for this run
  haul serve /srv/files --sftp :22 --user haul --users /etc/haul/users
  haul serve /srv/files --sftp :22 --tftp :69 --http :80
                                             one directory over three protocols
  haul serve /srv/boot --http :80 --listing  for UEFI HTTP boot, iPXE and browsers
  haul serve /srv/files --https :443 --cert cert.pem --key key.pem --http-auth /etc/haul/users`

// runServer is [serve.Run]; tests replace it.
var runServer = serve.Run

func newServe() *cobra.Command {
	var f serveFlags
	dryRun := false
	cmd := &cobra.Command{
		Use:     "serve [DIR...]",
		Short:   "Serve the files of a directory",
		Long:    serveHelp,
		Example: serveExamples,
		Annotations: commandline.More("tftp sftp http https cert key users http-auth listing upload upload-dir allow user config metrics quiet",
			"serve tftp", "serve sftp", "serve http", "serve files", "serve boot", "serve limits", "serve ops"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := f.resolve(cmd, args)
			switch {
			case err != nil:
				return mistakes(err)
			case dryRun:
				return f.settings.Located(serve.DryRun(cfg, cmd.OutOrStdout()))
			}
			return f.settings.Located(runServer(cmd.Context(), cfg, cmd.ErrOrStderr()))
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "check the settings, and print what would be served, without opening a socket")
	commandline.Group(cmd, "dry-run", "ops")
	cmd.ValidArgsFunction = completeDirs
	return cmd
}

func completeDirs(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// serveFlags holds the flags of "haul serve". Commands that show the effect of these flags, such as
// "haul config show", have them too.
type serveFlags struct {
	settings *config.Settings
	file     string
}

func (f *serveFlags) add(cmd *cobra.Command) { f.addSettings(cmd, config.New()) }

// addSettings does the same as add, but for the given settings, whose defaults may differ.
func (f *serveFlags) addSettings(cmd *cobra.Command, s *config.Settings) {
	f.settings = s
	f.settings.AddFlags(cmd.Flags())
	for _, s := range f.settings.All() {
		if s.Flag == "" {
			continue
		}
		commandline.Group(cmd, s.Flag, s.Group)
		if words := s.Words(); len(words) > 0 {
			commandline.CompleteWords(cmd, s.Flag, words...)
		}
	}
	cmd.Flags().StringVar(&f.file, "config", "", "read settings from `FILE`; without DIR the default is "+config.DefaultFiles)
	commandline.Group(cmd, "config", "ops")
}

// parse parses a command line of "haul serve", without these two words. The returned command
// contains the flags and the DIRs.
func (f *serveFlags) parse(words []string) (*cobra.Command, error) {
	haul, serve := &cobra.Command{Use: "haul"}, &cobra.Command{Use: "serve"}
	haul.AddCommand(serve)
	f.add(serve)
	serve.Flags().BoolP("dry-run", "n", false, "") // this flag is not a setting
	if err := serve.ParseFlags(words); err != nil {
		return nil, failure.Usage.Wrap(commandline.FlagError(serve, err))
	}
	return serve, nil
}

// resolve returns the configuration that results from the flags, the environment variables and the
// configuration file.
func (f *serveFlags) resolve(cmd *cobra.Command, dirs []string) (settings.Config, error) {
	if f.file == "" && len(dirs) == 0 {
		f.file = config.DefaultFile()
	}
	cfg, err := f.settings.Resolve(config.Sources{Dirs: dirs, Given: cmd.Flags().Changed, Lookup: os.LookupEnv, Environ: os.Environ(), File: f.file})
	cfg.Version = versionString()
	return cfg, err
}

// mistakes appends the number of mistakes to an error that reports several mistakes.
func mistakes(err error) error {
	if n := len(failure.Joined(err)); n > 1 {
		return errors.Join(err, fmt.Errorf("%d mistakes", n))
	}
	return err
}
