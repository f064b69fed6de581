package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/cli/top"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

const topHelp = `Show what a server does: transfers under way, machines that boot, and failures.

The server runs with --status ADDRESS; the URL is that of its status page (default:
` + top.DefaultURL + `). haul asks it every second, until you interrupt. Where lines cannot
change, that is without a terminal, and with NO_COLOR, it prints them once.

If the page needs a login, the URL names the user, and haul asks for the password.`

const topExamples = `  haul top
  haul top https://alice@192.0.2.1:9070 --fingerprint SHA256
  haul top | grep stuck`

func newTop() *cobra.Command {
	var web webFlags
	var passwordFile string
	c := top.Config{}
	cmd := &cobra.Command{
		Use:     "top [URL]",
		Short:   "Show what a server does, on a terminal",
		Long:    topHelp,
		Example: topExamples,
		Args:    commandline.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, urls []string) error {
			if c.Every < 100*time.Millisecond {
				return failure.Usage.Errorf("--every %v: it is 100ms or more", c.Every)
			}
			if len(urls) > 0 {
				c.URL = urls[0]
			}
			config := remote.WebConfig{CACert: web.cacert, Fingerprint: web.fingerprint, Insecure: web.insecure}
			secure, err := config.TLS()
			if err != nil {
				return err
			}
			c.Out, c.Client = cmd.OutOrStdout(), &http.Client{Transport: &http.Transport{TLSClientConfig: secure, Proxy: http.ProxyFromEnvironment}}
			c.Password = func(ctx context.Context, user, host string) (string, error) {
				if passwordFile != "" {
					return remote.PasswordIn(passwordFile)
				}
				password, err := console.AskPassword(ctx, os.Stdin, cmd.ErrOrStderr(), fmt.Sprintf("Password of %s@%s: ", console.Visible(user), console.Visible(host)))
				if errors.Is(err, console.ErrNoTerminal) {
					return "", failure.Usage.Errorf("%w; --password-file FILE names a file that has it", err)
				}
				return string(password), failure.Dial.Wrap(err)
			}
			return top.Run(cmd.Context(), c)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&c.Every, "every", time.Second, "ask the server once in this `TIME`")
	flags.StringVar(&passwordFile, "password-file", "", "log in with the password in the first line of `FILE`")
	web.add(cmd)
	return cmd
}
