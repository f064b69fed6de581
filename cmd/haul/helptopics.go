package main

import (
	"slices"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/cmd/haul/internal/server/config"
)

// program holds the parts of the help that belong to no single command.
var program = &commandline.Program{
	Version: versionString(),
	Groups:  slices.Concat([]string{commandline.GroupName(remote.WithTrees()), loginGroup, webGroup}, config.Groups),
	Topics: []commandline.Topic{
		{Name: "locations", Short: "How files on servers are written, and how haul logs in", Text: locationsHelp},
		{Name: "copying", Short: "How get, put, sync and cp resume, skip, follow links and wait", Text: copyingHelp},
		{Name: "patterns", Short: "Which names *, ? and ** match; --exclude, --include, --filter-from", Text: patternsHelp},
		{Name: "sizes", Short: "How sizes are written: 20M, 20MiB, 20MB", Text: sizesHelp},
		{Name: "json", Short: "What --json prints", Text: jsonHelp},
		{Name: "exit-codes", Short: "What the exit codes mean", Text: exitCodesHelp},
		{Name: "users-file", Short: "What the file of users may hold", Text: usersFileHelp},
		{Name: "configuration", Short: "Settings of a server: file, variables, flags, reload", Text: configurationHelp},
		{Name: "serve tftp", Short: "Serve TFTP: ports, options, packets", Text: serveTFTPHelp, Of: "serve", Flags: "TFTP"},
		{Name: "serve sftp", Short: "Serve SFTP: users and host keys", Text: serveSFTPHelp, Of: "serve", Flags: "SFTP"},
		{Name: "serve http", Short: "Serve HTTP and HTTPS: TLS, logins, listings, proxies", Text: serveHTTPHelp, Of: "serve", Flags: "HTTP"},
		{Name: "serve files", Short: "Which files clients get, and what they may write", Text: serveFilesHelp, Of: "serve", Flags: "files"},
		{Name: "serve boot", Short: "Boot files, menus, Secure Boot, rules for machines, relay agents", Text: serveBootHelp, Of: "serve", Flags: "boot"},
		{Name: "serve limits", Short: "Limit clients, connections and bytes a second", Text: serveLimitsHelp, Of: "serve", Flags: "limits"},
		{Name: "serve ops", Short: "Signals, restarts, rights, logs, status page, metrics, packet traces", Text: serveOpsHelp, Of: "serve", Flags: "ops"},
	},
}

const locationsHelp = `How files on servers are written, and how haul logs in.

  [USER@]HOST:PATH                a file over SFTP, as scp has it: below the home directory,
                                  unless PATH begins with a slash
  sftp://[USER@]HOST[:PORT]/PATH  the same as a URL: PATH is absolute, and /~/PATH is below
                                  the home directory
  http://[USER@]HOST[:PORT]/PATH  a file over HTTP, or with https:// over HTTPS
  s3://BUCKET/KEY                 an object of S3, Amazon's or another server's
  tftp://HOST[:PORT]/NAME         a file over TFTP
  PATH                            a file of this machine; one with a colon is ./PATH

Over SFTP, haul reads ~/.ssh/config and known_hosts, and uses the keys and the agent
that ssh uses, with jump hosts and proxy commands. It asks for passwords and
passphrases on the terminal, or by the program that SSH_ASKPASS names.

With --ssh, the ssh of this machine logs in, and haul speaks SFTP over "ssh -s HOST
sftp": for Kerberos, hardware keys, or a connection that ControlMaster shares. It gets
-i, -J, -P, -F, -o and --batch. --ssh='ssh -v' runs it with options, and no shell reads
them; another program has to take the same options. --ssh needs its =.

Over HTTP, passwords come from ~/.netrc or --password-file; else haul asks on the
terminal if the server wants one. It sends a password to no other server. Proxies are
those of HTTP_PROXY, HTTPS_PROXY and NO_PROXY. --cacert trusts a certificate that the
system does not.

Over S3, endpoint, region and keys come from where the tools of AWS find them:
AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile
that AWS_PROFILE names in ~/.aws/config and ~/.aws/credentials, or else the service of the
cloud that the machine runs in. A KEY is written as in other URLs: a space is %20.

--password-file reads a password from the first line of a file. With --batch, haul never
asks, and fails if the server wants an answer.`

const copyingHelp = `How get, put and sync copy files over SFTP, HTTP and S3.

Resuming:
  --continue keeps the received part of a file if the copy is cut off. The next run with
  --continue resumes there. If haul cannot resume a file, it says why.

  After kill -9 the next run resumes a little before: get by up to 16 MiB of a file, and
  put over SFTP by what came in some 5 s, at most 32 MiB.

  A file that is complete is copied again, unless
    - it has the size and the time of its source: use -p from the first run on, or
    - a server that can hash says that the content is the same.

  With -r, a directory that is copied to a new name has a temporary file in it until the
  copy is complete. The same command finds it, and resumes in that directory; without
  --continue it copies the source below the directory. HTTP and S3 have no such file:
  name the source DIR/. to resume.

  Resuming an upload that another process may still send waits 3 s for it to stop.

Unchanged files:
  --unchanged       skips files of the same size and time, and keeps the times of the
                    files that it copies, so that the next run finds them unchanged
  --unchanged=size  skips files of the same size, whatever their time
  --unchanged=hash  skips files of the same content, whatever their time
  --update          leaves alone files that are newer than their source
  --no-clobber      leaves alone files that are there already

  Over HTTP and S3 a file has the time of its upload: put does without --unchanged=time
  there, and --update leaves alone what was uploaded after its source was changed.

  sync skips files of the same size and time, with --checksum of the same content, and
  with --size-only of the same size. To HTTP and S3 it compares content unless --size-only
  is given: by the server's hash, or by reading the file.

Deleting:
  sync --delete asks SOURCE for each name that is to go, as a listing may hide some. It
  deletes nothing through a symbolic link. If something in DEST is of another kind than
  in SOURCE, such as a directory in place of a file, it is deleted and then copied. A
  directory stays if a file in it is excluded.

Permissions and times:
  -p keeps both for everything that is copied. A directory that existed, and that the
  server lets nobody change, keeps its own; the summary counts those. Over HTTP and S3,
  get -p keeps times only, and put has no -p.

Symbolic links in directories:
  --links skip    leaves them out; this is the default
  --links keep    makes links with the same text, wherever they lead
  --links follow  copies their targets; a link to a directory above itself is an error,
                  and for put so is one that leads out of the directory

  Nothing is written through a link that --links keep has made. Over HTTP, get always
  follows links, as servers list them as their targets.

Names and numbers:
  Names may be any bytes. A name that the target cannot have is an error, and so is a name
  that is not UTF-8 on Windows and macOS. If the target takes several names for one, as
  README and readme there, the first is copied, and the others are errors.

  A copy ends at 4,000,000 directories, as links on a server may lead in a circle.

  --parallel N bounds both the files that are copied at once and the connections to each
  server. Without it there are at most 8 connections to a server, and 256 to one of S3.
  haul copies 8 large files at a time, and besides them 64 small ones over SFTP, HTTP/2 and
  S3. Over SFTP and S3 it is up to 512 where the round trip is long, as far as the server
  can have them open, or the connections carry them.

Over SFTP:
  - haul gives up on a server that cannot be reached after 30 s (change that by
    -o ConnectTimeout=N or in ssh_config), and on a login after 2 minutes; with --ssh
    on both after 150 s, or after 30 s with --batch.
  - If a server owes an answer and is silent for 60 s, haul asks again in a new session. If
    the third session is silent too, haul gives up: after 3 minutes.

Over HTTP and HTTPS:
  - haul fetches a large file over several connections, if the server has ranges and an
    ETag or a Last-Modified that identifies the version of the file. get --continue needs
    such a server, and put --continue one that keeps parts, as haul's does.

  - If a file is replaced meanwhile, haul begins it anew, at most twice, and the last time
    over one connection, so that all is of one version. To standard output it is an error,
    as the bytes that were written cannot be taken back.

  - --verify compares the file with the hash that the server sends (Repr-Digest), or else
    reads it again. get -r needs a server that lists its directories: see haul ls --help.

  - If a server is silent for 60 s, haul asks again. If it is busy (429, 503), haul waits
    for the time that it says, up to 2 minutes.

  - If a server is gone after it has answered, as during a restart, haul tries again for
    some 20 s. Then get resumes if the file is the same version, and put if the server
    keeps parts, as haul's does for files from 32 MiB on. Otherwise put begins the file
    anew, at most twice.

Over S3:
  - haul moves a large file by several requests at once. It sends a file of more than
    8 MiB as a multipart upload, of parts of 8 MiB up to 64 MiB: so a file has up to
    625 GiB, and one from standard input up to 156 GiB.

  - put --continue resumes a multipart upload: it compares the MD5 of each part that is
    there with the file. An upload that is never resumed stays until a rule of the bucket
    removes it (AbortIncompleteMultipartUpload).

  - If an object is replaced meanwhile, haul begins it anew, at most twice.

  - If a server is busy (500, 503), or the connection is lost, haul tries again, six
    times in a row at most. It waits for the time that the server says, up to 2 minutes.`

const patternsHelp = `Patterns name several files at once.

get, cp, ls, tree, stat, sum, cat, rm and chmod expand a pattern in a location on a
server. Put it in quotes, so that the shell leaves it alone: haul get 'host:logs/**/*.gz' .
put expands those in local names that the shell left alone.

  *      any characters but a slash
  ?      one character but a slash
  [a-z]  one of these characters
  **     any number of directories, or none; at the end of a pattern, all names below
  \*     a character that would mean something else, as itself

A name that begins with a dot matches only if the pattern has the dot too. ** follows no
symbolic links. A pattern that ends in a slash matches directories only.

Filters choose files in the directories that get -r, put -r and sync copy, by the rules of
rclone. The first rule that matches a file decides, in the order of the command line; a
file that none matches is copied, unless there is an --include.

  --exclude PATTERN   leaves files out
  --include PATTERN   copies files, and leaves out those that no rule matches
  --filter-from FILE  has a rule in each line: "+ PATTERN" includes, "- PATTERN" excludes,
                      "!" removes all rules before it, and # begins a comment

They match the name below the directory that is copied, with a dot in front or without:
  *.o      files of this kind in any directory; {*.o,*.a} are two kinds
  /notes   the file of this name in the directory itself
  .git/    directories of this name, wherever they are, with all that is in them
  /a/**    all that is in the directory a; ** is one element or more, between slashes
  [!a-z]*  files whose name does not begin with one of these characters

A pattern without a slash at its end matches files only: to leave out the directory
node_modules, write node_modules/. In DEST, sync --delete leaves excluded files alone,
unless --delete-excluded is given.`

const jsonHelp = `The output of --json.

ls and stat print one object for each entry, on a line of its own: path, name, type
(file, dir, symlink, ...), size, mode (octal), modified, accessed, uid, gid, owner,
group, links and target. Members that the server does not report are missing. A path
or a name that is not UTF-8 has its bytes in path_bytes or name_bytes too, in base64.

get, put, sync and rm print one object for each event, on a line of its own: docs/json.md
lists all fields. Each has event and time; those of one file have path, to, type and size
as well, and path_bytes and to_bytes for names that are not UTF-8.
  start       version (of this format), command, sources, to, dry_run
  found       everything is listed: files, bytes
  file        a file begins
  progress    twice a second: files, bytes, total_files, total_bytes, final, rate,
              remaining, active, current (path, bytes, size of files under way)
  copied      bytes, resumed, verified, seconds, and over TFTP packets, resent
  made, unchanged, skipped (reason), removed, renamed (was)
  failed      error, cause, exit_code; the others are tried nevertheless
  unfinished  a file that was under way when the command ended early
  note        message
  error       of no single file: error, cause, exit_code
  end         result (ok, incomplete, failed, interrupted), exit_code, files, bytes,
              resumed, unchanged, made, skipped, removed, renamed, failed, unfinished,
              seconds, rate, dry_run
Sizes are in bytes, rates in bytes a second, durations in seconds. cause is the word for
an exit code: failed, usage, not-found, refused, no-answer, local, interrupted. Errors are
on standard error as well; progress and summaries are not printed. A mistake on the
command line is text on standard error, without events. --quiet leaves start, failed,
error and end. get with - is refused.

df prints one object for each location, with sizes in bytes: location, total, used,
free, available, files, free_files and read_only.

doctor prints one document: target, server, verdict, reports and broken. There is one
report for each client or check: persona, sends, verdict, findings (rule, verdict, saw),
notes, bytes, whole, sha256 and took_ns. Each broken rule has name, source and advice.

bench tftp prints one object:
  results   seconds, transfers, failed, errors (reason and count), bytes, mb_per_second,
            data_packets, packets_per_second, resent, duplicates, timeouts, late, cut,
            verified, agreed_blksize, agreed_windowsize
  times     latency_ms (of whole transfers) and first_ms (from the request to the first
            answer), each with p50, p90, p99 and max
  generator client_cpu_seconds, client_cpu_share (of one processor), busy (of the busiest
            loop), saturated
  request   concurrency, size, blksize, windowsize, write, loss, seed, loops

bench boot prints one object:
  results   seconds, machines, up, failed, cut, failures and retried (reason and count),
            power_cycles, loaders_again, images_continued, images_again, loader_bytes,
            image_bytes, mb_per_second, loader_size, image_size, client_cpu_seconds
  times     up_seconds (from the begin; p50, p95 and p100, null for never) and
            boot_seconds (of one machine; p50, p95 and max)
  servers   loaders and images, each a list of url, transfers, failed and bytes
  request   arrival, firmware, lost, seed
With --simulate it has no sizes, servers or times of one machine, but link_seconds and
core_seconds (the bounds), cpu_seconds, store_reads, store_bytes and replicas.`

const exitCodesHelp = `The meaning of the exit codes.

  0    everything was done
  1    a transfer failed, or sum --check found a file that differs
  2    the command line is wrong
  3    the server has no such file
  4    the server refused, or its host key or the login was refused
  5    no server of the protocol answered, or the connection was lost
  6    a local file could not be read or written
  130  interrupted

If several files fail for different reasons, the first of these counts: 2, 130, 6, 5, 4,
3, 1.`

const usersFileHelp = `The users file names those who may log in to "haul serve", by SFTP or HTTP.

"haul user" edits the file, and so can you. It has one statement a line; a line that
begins with # is a comment. In FILE and DIR %u is the user's name. A FILE that is not
absolute is relative to the directory of the users file.

For one user:
  user NAME       begins the statements about a user
  password HASH   bcrypt, or argon2id as "haul user" writes it
  key LINE        a line of an authorized_keys file, its options included
  disabled        may not log in

For one user, or before the first user for all:
  keys FILE       an authorized_keys file
  root DIR        absolute, or below the directory that is served
  access WHAT     full, read-only or upload-only
  limit RATE      bytes a second each way, such as 10MiB
  from NET...     log in from these networks only
  require WHAT    any, or key+password: both, one after the other

Before the first user only:
  authority LINE     a key whose certificates are valid for the users they name
  authorities FILE   a file of such keys
  revoked FILE       keys, or SHA256: fingerprints, that are not accepted

Only the owner and the group may have access to the file, and it must be readable for
the user that the server runs as: "chgrp haul FILE; chmod 640 FILE" for a server that
becomes haul. It must belong to that user or to root, as its owner decides who may log
in.

A running server applies a change within seconds. If the file has a mistake, the server
logs it and keeps the users that it has.`

const sizesHelp = `How sizes are written.

A SIZE on the command line is a whole number of bytes, or a whole number with a unit.
Upper and lower case mean the same.

  K, KiB   1,024                   KB   1,000
  M, MiB   1,048,576               MB   1,000,000
  G, GiB   1,073,741,824           GB   1,000,000,000
  T, TiB   1,099,511,627,776       TB   1,000,000,000,000

So --limit 20M is 20,971,520 bytes a second, and --limit 20MB is 20,000,000. dd, head,
split and others of coreutils read sizes in the same way.

haul prints sizes in kB, MB and GB of 1,000, 1,000,000 and 1,000,000,000 bytes. There
are three exceptions: "haul ls -h", "haul tree -h" and "haul df -h" print K, M and G of
1,024, as ls and df do; "haul df" without -h prints KiB; and "haul user list" prints each
limit as an exact SIZE.

The lengths of packets (--blksize, --mtu, --trace-hex) are plain numbers of bytes.`
