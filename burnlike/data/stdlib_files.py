"""The default corpus: names of files in the Python standard library, so that a first run needs no download.

All exist in Python 3.11 and 3.12 and in the stripped installs that Linux distributions ship (no tests, no Tk, no pip).
Training and validation are different files. Generated tables (encodings, HTML entities) are left out.
"""

import sysconfig
from pathlib import Path

_VALIDATION = """
    asyncio/locks.py calendar.py csv.py email/generator.py fractions.py http/cookies.py json/encoder.py
    logging/config.py queue.py shelve.py textwrap.py unittest/loader.py uuid.py weakref.py
"""

_TRAINING = """
    _collections_abc.py _markupbase.py _pydecimal.py _pyio.py _strptime.py _weakrefset.py abc.py argparse.py ast.py
    asyncio/base_events.py asyncio/base_subprocess.py asyncio/events.py asyncio/futures.py
    asyncio/proactor_events.py asyncio/queues.py asyncio/runners.py asyncio/selector_events.py
    asyncio/sslproto.py asyncio/staggered.py asyncio/streams.py asyncio/subprocess.py asyncio/taskgroups.py
    asyncio/tasks.py asyncio/timeouts.py asyncio/transports.py asyncio/unix_events.py asyncio/windows_events.py
    base64.py bdb.py bisect.py bz2.py cProfile.py cmd.py code.py codecs.py codeop.py collections/__init__.py
    colorsys.py compileall.py concurrent/futures/_base.py concurrent/futures/process.py
    concurrent/futures/thread.py configparser.py contextlib.py copy.py copyreg.py ctypes/__init__.py ctypes/util.py
    dataclasses.py difflib.py dis.py doctest.py email/_encoded_words.py email/_header_value_parser.py
    email/_parseaddr.py email/_policybase.py email/charset.py email/contentmanager.py email/feedparser.py
    email/header.py email/headerregistry.py email/message.py email/policy.py email/quoprimime.py email/utils.py
    enum.py filecmp.py fileinput.py fnmatch.py ftplib.py functools.py genericpath.py getopt.py getpass.py
    gettext.py graphlib.py gzip.py hashlib.py heapq.py hmac.py html/parser.py http/client.py http/cookiejar.py
    http/server.py imaplib.py importlib/_bootstrap.py importlib/_bootstrap_external.py importlib/abc.py
    importlib/metadata/__init__.py importlib/util.py inspect.py ipaddress.py json/__init__.py json/decoder.py
    json/scanner.py linecache.py logging/__init__.py logging/handlers.py lzma.py mailbox.py mimetypes.py
    modulefinder.py multiprocessing/connection.py multiprocessing/context.py multiprocessing/forkserver.py
    multiprocessing/heap.py multiprocessing/managers.py multiprocessing/pool.py multiprocessing/process.py
    multiprocessing/queues.py multiprocessing/reduction.py multiprocessing/shared_memory.py
    multiprocessing/sharedctypes.py multiprocessing/spawn.py multiprocessing/synchronize.py
    multiprocessing/util.py netrc.py ntpath.py numbers.py opcode.py operator.py optparse.py os.py pdb.py pickle.py
    pickletools.py pkgutil.py platform.py plistlib.py poplib.py posixpath.py pprint.py profile.py pstats.py
    py_compile.py pyclbr.py pydoc.py quopri.py random.py re/__init__.py re/_compiler.py re/_parser.py reprlib.py
    rlcompleter.py runpy.py sched.py secrets.py selectors.py shlex.py shutil.py signal.py site.py smtplib.py
    socket.py socketserver.py ssl.py stat.py statistics.py string.py subprocess.py symtable.py tabnanny.py
    tarfile.py tempfile.py threading.py timeit.py tokenize.py tomllib/_parser.py trace.py traceback.py
    tracemalloc.py types.py typing.py unittest/async_case.py unittest/case.py unittest/main.py unittest/mock.py
    unittest/result.py unittest/runner.py unittest/suite.py urllib/parse.py urllib/request.py
    urllib/robotparser.py warnings.py wave.py webbrowser.py wsgiref/handlers.py wsgiref/simple_server.py
    wsgiref/util.py wsgiref/validate.py xml/dom/expatbuilder.py xml/dom/minidom.py xml/dom/pulldom.py
    xml/dom/xmlbuilder.py xml/etree/ElementPath.py xml/etree/ElementTree.py xml/sax/expatreader.py
    xml/sax/handler.py xml/sax/saxutils.py xml/sax/xmlreader.py xmlrpc/client.py xmlrpc/server.py zipapp.py
    zipimport.py zoneinfo/_common.py zoneinfo/_zoneinfo.py
"""

VALIDATION_FILES = tuple(_VALIDATION.split())
TRAINING_FILES = tuple(_TRAINING.split())


def stdlib_files(names: tuple[str, ...]) -> list[Path]:
    """Paths of those of the named files that this Python has: a later version may have moved one of them."""
    root = Path(sysconfig.get_path("stdlib"))
    return [path for path in (root / name for name in names) if path.is_file()]
