import io.trino.server.Server;

/** Starts a server that ends with the process it was started by, whose end it sees on its standard input. */
public final class TrinoLauncher {
    public static void main(String[] arguments) {
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // Nothing is said here; only the end matters.
                }
            } catch (java.io.IOException ignored) {
                // The other side is gone.
            }
            Runtime.getRuntime().halt(0);
        });
        watch.setDaemon(true);
        watch.start();
        new Server().start(arguments[0]);
    }
}
