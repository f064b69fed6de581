package main

import "github.com/spf13/cobra"

// copyingHelp is what get and put have in common over SFTP and HTTP.
const copyingHelp = `How get and put copy files over SFTP and HTTP.

Resuming:
  --continue keeps what has come of a file if the run is cut off, even if it is killed.
  The next run with --continue resumes there. haul says when it cannot resume a file,
  and why.

  A file that is there as a whole is copied again, unless
    - it has the size and the time of its source: use -p from the first run on, or
    - a server that can hash says that the content is the same.

  With -r, a directory that is copied to a new name has a hidden file in it until all is
  there, by which the same command resumes in it. Without --continue it would copy the
  source below it. Over HTTP there is none: name the source DIR/. to resume there.

  To resume a put that another run may still be sending takes 3 s, for that to notice.

Unchanged files:
  --unchanged       skips files of the same size and time, and keeps the times of the
                    files that it copies, so that the next run finds them unchanged
  --unchanged=hash  skips files of the same content, whatever their time; put over HTTP
                    has this one only, as files have the time of the upload there

Permissions and times:
  -p keeps both for what is copied. A directory that was there, and that the server lets
  nobody change, keeps its own; the summary counts those. Over HTTP, get -p keeps times
  only, and put has no -p.

Symbolic links in directories:
  --links skip    leaves them out; this is the default
  --links keep    makes links with the same text, wherever they lead
  --links follow  copies what they lead to; a link to a directory above itself is an
                  error, and so is, for put, one that leads out of the directory

  Nothing is written through a link that --links keep has made. Over HTTP get follows
  links always, as servers list them as what they lead to.

Names and numbers:
  Names may be any bytes. One that the target cannot have is an error, as is a name that
  is not UTF-8 on Windows and macOS. Of names that the target takes for one, as README
  and readme there, the first is copied, and the others are errors.

  A copy ends at 4,000,000 directories: a server whose links lead in a circle has no end.

  --parallel N bounds both the files that are copied at once and the connections to
  each server. Without it there are at most 8 connections to a server, large files are
  copied 8 at a time, and besides them up to 64 small ones over SFTP and HTTP/2.

Over SFTP:
  - A server that cannot be reached is given up after 30 s (-o ConnectTimeout=N or
    ssh_config change that), and a login after 2 minutes.
  - A server that owes an answer and is silent for 60 s is asked again in a new session,
    and given up if the third is silent too: after 3 minutes.

  Questions are asked on the terminal, or by the program that SSH_ASKPASS names, as by
  ssh.

Over HTTP and HTTPS:
  - A large file comes over several connections, if the server has ranges and says by
    an ETag or a Last-Modified which version of the file a part is of. get --continue
    takes such a server, and put --continue one that keeps parts, as haul's does.

  - A file that is replaced meanwhile is begun anew, twice at most, and the last time
    over one connection, which has all of one version. To standard output it is an
    error, as what has gone there cannot be taken back.

  - --verify compares with the hash that the server sends (Repr-Digest), or else reads
    the file again. get -r takes a server that lists its directories: see haul ls --help.

  - Proxies are those of HTTP_PROXY, HTTPS_PROXY and NO_PROXY. A password comes from
    ~/.netrc or --password-file, or is asked for if the server wants one. It goes to no
    other server.

  - A server that is silent for 60 s is asked again, and one that is busy (429, 503)
    after the time that it says, of up to 2 minutes.

  - A server that is gone after it has answered, as one that restarts, is tried again
    for some 20 s. Then get resumes if the file is the same version, and put if the
    server keeps parts, as haul's does of files from 32 MiB on. Else put begins the file
    anew, twice at most.`

// newCopying is "haul help copying".
func newCopying() *cobra.Command {
	return &cobra.Command{Use: "copying", Short: "How get and put resume, skip, follow links and wait", Long: copyingHelp}
}
