// The worker: loads one device library and runs the plans it is sent.
//
//   worker LIBRARY ADAPTOR      (ADAPTOR may be empty)
//
// Descriptor 3 is the socket to optool, 4 the shared memory, 5 where the first process of a
// namespace says how the worker ended. It ends when the socket closes, whatever the library is doing.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <deque>
#include <memory>
#include <thread>

#include "isolate.h"
#include "plan.h"
#include "restrain.h"

namespace {

constexpr int socketFd = 3, arenaFd = 4, statusFd = 5;
constexpr size_t plansKept = 64;  // that have ended: threads that outlive their call may hold handles

bool readAll(char* p, size_t n) {
  while (n > 0) {
    ssize_t k = read(socketFd, p, n);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return false;
    p += k;
    n -= static_cast<size_t>(k);
  }
  return true;
}

// The request that answers are about, and who gives them: a copy of this process that
// the library made must not.
uint32_t request = 0;
pid_t self = 0;

void sendAnswer(optool::Writer& answer) {
  if (getpid() != self) _exit(0);
  const std::vector<char>& m = answer.message(request);
  for (size_t done = 0; done < m.size();) {
    ssize_t k = ::send(socketFd, m.data() + done, m.size() - done, MSG_NOSIGNAL);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) {
      std::fputs("the connection to optool was closed\n", stderr);
      _exit(1);
    }
    done += static_cast<size_t>(k);
  }
}

void sendProblem(const std::string& text) {
  optool::Writer w;
  w.put(optool::Answer::problem);
  w.text(text);
  sendAnswer(w);
}

// Ends this process group when optool is gone, also while an operator hangs.
void watch() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);  // the library's signals are for its own threads
  struct pollfd p = {socketFd, POLLRDHUP, 0};
  while (poll(&p, 1, -1) < 0 && errno == EINTR) {
  }
  kill(0, SIGKILL);
}

void sayHello(const optool::Library& library, const optool::Arena& arena, uint8_t isolation, const std::string& problem) {
  optool::Writer w;
  w.put(optool::Answer::hello);
  w.text(problem);
  w.text(library.vendor);
  w.text(library.version);
  w.u8(library.hasLastError);
  w.u8(!library.device.isHostMemory());
  w.u64(arena.size());
  w.u8(isolation);
  w.u32(static_cast<uint32_t>(library.remarks.size()));
  for (const std::string& remark : library.remarks) w.text(remark);
  w.u32(static_cast<uint32_t>(library.symbols.size()));
  for (void* symbol : library.symbols) w.u8(symbol != nullptr);
  sendAnswer(w);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("worker: it is started by optool\n", stderr);
    return 2;
  }
  uint8_t isolation = optool::ownNamespace(statusFd);
  // Programs that the library starts do not keep the connection.
  fcntl(socketFd, F_SETFD, FD_CLOEXEC);
  fcntl(arenaFd, F_SETFD, FD_CLOEXEC);
  self = getpid();
  if (optool::protectParent()) isolation |= optool::filtered;
  std::thread(watch).detach();
  optool::Library library;
  std::string problem = library.open(argv[1], argv[2]);
  optool::Arena arena(arenaFd, library.device);
  library.process = optool::Process();
  sayHello(library, arena, isolation, problem);
  if (!problem.empty()) return 1;
  std::deque<std::unique_ptr<optool::Plan>> ended;
  uint32_t length;
  while (readAll(reinterpret_cast<char*>(&length), sizeof length)) {
    std::vector<char> message(length);
    if (!readAll(message.data(), length)) break;
    if (length == 0) {  // the end
      library.close();
      _exit(0);
    }
    try {
      optool::Reader r(message);
      request = r.u32();
      auto plan = std::make_unique<optool::Plan>(r, arena, library);
      plan->run(sendAnswer);
      plan->end();
      ended.push_back(std::move(plan));
      if (ended.size() > plansKept) ended.pop_front();
    } catch (const std::exception& e) {
      sendProblem(e.what());
    } catch (...) {
      sendProblem("a device function threw " + optool::describeException());
    }
  }
  _exit(0);
}
